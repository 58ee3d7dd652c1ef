//! A driver that has volumes from the beginning.

use crate::core::Core;
use crate::options::{SMALLEST, USUAL};
use crate::state::{Asked, Volume};
use crate::volumes::{ZONES, in_zone, medium};
use csi_proto::v1::VolumeCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use std::collections::BTreeSet;

impl Core {
    /// Makes the volumes `mock-1` to `mock-COUNT` that are not there yet. Each can be used as a file system and as a device;
    /// sizes differ.
    pub(crate) fn fill(&self, count: usize) {
        let topology = self.has_topology().then(|| in_zone(ZONES[0]));
        let mut state = self.state();
        let present: BTreeSet<String> =
            state.volumes.values().map(|one| one.name.clone()).collect();
        for number in 1..=count {
            let name = format!("mock-{number}");
            if present.contains(&name) {
                continue;
            }
            let id = state.new_id("vol");
            let volume = Volume {
                id: id.clone(),
                name,
                capacity: USUAL + i64::try_from(number % 64).unwrap_or_default() * SMALLEST,
                context: medium(),
                topology: topology.iter().cloned().collect(),
                asked: Asked {
                    capabilities: either_use(),
                    ..Asked::default()
                },
                ..Volume::default()
            };
            state.volumes.insert(id, volume);
        }
    }
}

fn either_use() -> Vec<VolumeCapability> {
    let kinds = [
        AccessType::Mount(MountVolume::default()),
        AccessType::Block(BlockVolume {}),
    ];
    let mode = AccessMode {
        mode: Mode::SingleNodeWriter.into(),
    };
    let with = |kind| VolumeCapability {
        access_mode: Some(mode),
        access_type: Some(kind),
    };
    kinds.map(with).into()
}
