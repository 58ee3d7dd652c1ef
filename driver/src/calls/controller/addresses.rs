//! Shares by their addresses, of which a share may have several, as when its server is replaced. Owns which addresses lead to one share,
//! as far as is known, and at which it is looked for first. Whether two addresses with one UUID are one share is told in `twins`.

use super::error::ControllerError;
use super::known::Known;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::token::ShareUuid;
use csi_proto::lock::lock;
use std::collections::BTreeMap;
use std::time::Instant;

/// A share that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Addressed {
    pub(super) uuid: Option<ShareUuid>,
    /// Its first address, by which it has its place among others, whichever address answers.
    pub(super) first: Export,
    /// All of them, those first that answer.
    pub(super) addresses: Vec<Export>,
}

/// The addresses of each share, in order of the first ones.
fn of_each(known: &BTreeMap<Export, Known>) -> Vec<Vec<(&Export, &Known)>> {
    let mut all = Vec::<Vec<_>>::new();
    let mut places = BTreeMap::<ShareUuid, usize>::new();
    for (export, share) in known {
        let place = share.uuid.and_then(|uuid| places.get(&uuid));
        match place.and_then(|place| all.get_mut(*place)) {
            Some(addresses) => addresses.push((export, share)),
            None => {
                places.extend(share.uuid.map(|uuid| (uuid, all.len())));
                all.push(vec![(export, share)]);
            }
        }
    }
    all
}

impl Shares {
    /// All shares known by now, in order, each once.
    pub(super) fn by_addresses(&self) -> Vec<Addressed> {
        let silent = self.looks.all_silent(Instant::now());
        let known = lock(&self.known);
        let shares = of_each(&known).into_iter().filter_map(|mut addresses| {
            let (first, share) = *addresses.first()?;
            let (first, uuid) = (first.clone(), share.uuid);
            addresses.sort_by_key(|(export, share)| {
                let is_silent = silent.iter().any(|it| it.export == **export);
                (is_silent, !share.tried.is_some_and(|last| last.opened))
            });
            let addresses = addresses.into_iter().map(|(export, _)| export.clone());
            Some(Addressed {
                uuid,
                first,
                addresses: addresses.collect(),
            })
        });
        shares.collect()
    }

    /// The same, each by the address at which it is looked for first.
    pub(super) fn known(&self) -> Vec<Export> {
        let shares = self.by_addresses().into_iter();
        let addresses =
            shares.map(|share| share.addresses.into_iter().next().unwrap_or(share.first));
        addresses.collect()
    }

    /// The addresses of each share that was named at the start.
    pub(super) fn configured_by_addresses(&self) -> Vec<Vec<Export>> {
        let configured = self.configured();
        let shares = self.by_addresses().into_iter().map(|mut share| {
            share.addresses.retain(|it| configured.contains(it));
            share.addresses
        });
        shares.filter(|addresses| !addresses.is_empty()).collect()
    }

    /// Whether the share gives no answer at this address.
    pub(super) fn is_silent(&self, export: &Export) -> bool {
        let silent = self.looks.all_silent(Instant::now());
        silent.iter().any(|it| it.export == *export)
    }
}

/// Does `work`, which begins anew each time, at one address of a share after the other, until it succeeds.
///
/// # Errors
/// That at the first address.
pub(super) async fn at_one_of<T, W>(
    addresses: &[Export],
    work: impl Fn(Export) -> W,
) -> Result<T, ControllerError>
where
    W: Future<Output = Result<T, ControllerError>>,
{
    let mut failure = None;
    for address in addresses {
        match work(address.clone()).await {
            Ok(done) => return Ok(done),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or(ControllerError::ShuttingDown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use crate::calls::controller::known::Tried;
    use csi_nfs_store::files::roots::local::LocalRoots;
    use std::sync::Arc;

    #[test]
    fn each_share_keeps_its_place_whichever_address_answers() {
        let all = ["a", "b", "c", "d"].map(|server| Export::parse(server, "/x").unwrap());
        let [a, b, c, d] = &all;
        let mut config = ControllerConfig::new(Arc::new(LocalRoots::new([])));
        config.other_exports = all.to_vec();
        let shares = Shares::new(config);
        let uuids = [(); 2].map(|()| ShareUuid::random().unwrap());
        let [one, two] = uuids.map(Some);
        // Of the last one nobody knows which share it is.
        for (export, uuid) in [(a, one), (b, two), (c, one)] {
            shares.on_known(export, |share| share.uuid = uuid);
        }
        for (answers, first) in [([true, true], a), ([false, true], c), ([false, false], a)] {
            for (export, opened) in [a, c].into_iter().zip(answers) {
                let at = Instant::now();
                shares.on_known(export, |share| share.tried = Some(Tried { at, opened }));
            }
            let seen = shares.by_addresses();
            let places = seen.iter().map(|share| (share.uuid, &share.first));
            let places: Vec<_> = places.collect();
            assert_eq!(places, [(one, a), (two, b), (None, d)], "{answers:?}");
            assert_eq!(
                shares.known(),
                [first, b, d].map(Export::clone),
                "{answers:?}"
            );
        }
    }

    #[tokio::test]
    async fn work_is_done_at_the_first_address_that_answers() {
        let all = ["a", "b", "c"].map(|server| Export::parse(server, "/x").unwrap());
        let at = |answering: &'static [&'static str]| {
            at_one_of(&all, move |export: Export| async move {
                match answering.contains(&export.server()) {
                    true => Ok(export.server().to_owned()),
                    false => Err(ControllerError::Invalid(export.server().to_owned())),
                }
            })
        };
        for (answering, expected) in [(["a", "b"].as_slice(), "a"), (&["b", "c"], "b")] {
            assert_eq!(at(answering).await.unwrap(), expected);
        }
        assert_eq!(at(&[]).await.unwrap_err().to_string(), "a");
    }
}
