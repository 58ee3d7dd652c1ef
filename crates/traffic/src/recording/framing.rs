//! Puts the messages of one direction of a gRPC call together from the pieces in which HTTP/2 carries them.
//!
//! It looks at five bytes before each message and at nothing inside of it.

use bytes::Bytes;

/// The most bytes that are kept of one direction of a call. Of a larger message, and of those after that many bytes, only
/// the size is kept.
const KEPT_MAX: usize = 64 << 20;

/// The most bytes that are allocated at once for a message that has only begun: the other side chooses its length.
const ROOM_MAX: usize = 1 << 20;

const PREFIX: usize = 5;

/// A message as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FramedMessage {
    /// The bytes of the message.
    Plain(Bytes),
    /// So many bytes, compressed in a way that only the two sides know.
    Compressed(usize),
    /// So many bytes, too many to keep.
    Omitted(usize),
}

impl FramedMessage {
    /// The bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Compressed(_) | Self::Omitted(_) => 0,
        }
    }
}

/// The messages so far.
#[derive(Debug, Default)]
pub struct Messages {
    /// The complete ones.
    pub complete: Vec<FramedMessage>,
    prefix: Vec<u8>,
    body: Option<Body>,
    kept: usize,
}

/// A message that is not complete yet.
#[derive(Debug)]
struct Body {
    compressed: bool,
    length: usize,
    seen: usize,
    /// Absent for a message that is not kept.
    bytes: Option<Vec<u8>>,
}

impl Messages {
    /// Takes what came next; returns how many messages it completed.
    pub fn push(&mut self, mut chunk: Bytes) -> usize {
        let before = self.complete.len();
        while !chunk.is_empty() {
            match &mut self.body {
                Some(body) => {
                    let piece = chunk.split_to(chunk.len().min(body.length - body.seen));
                    body.seen += piece.len();
                    if let Some(bytes) = &mut body.bytes {
                        bytes.extend_from_slice(&piece);
                    }
                }
                None => {
                    let missing = PREFIX - self.prefix.len();
                    let piece = chunk.split_to(chunk.len().min(missing));
                    self.prefix.extend_from_slice(&piece);
                    let Ok(prefix) = <[u8; PREFIX]>::try_from(self.prefix.as_slice()) else {
                        break;
                    };
                    self.prefix.clear();
                    self.begin(prefix, &mut chunk);
                }
            }
            self.finish();
        }
        self.complete.len() - before
    }

    fn begin(&mut self, prefix: [u8; PREFIX], chunk: &mut Bytes) {
        let [flag, length @ ..] = prefix;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let compressed = flag == 1;
        let keeps = !compressed && self.kept.saturating_add(length) <= KEPT_MAX;
        // The usual case costs no copy: the whole message is in this piece.
        if keeps && chunk.len() >= length {
            self.kept += length;
            self.complete
                .push(FramedMessage::Plain(chunk.split_to(length)));
            return;
        }
        self.body = Some(Body {
            compressed,
            length,
            seen: 0,
            bytes: keeps.then(|| Vec::with_capacity(length.min(ROOM_MAX))),
        });
    }

    fn finish(&mut self) {
        if let Some(body) = self.body.take_if(|body| body.seen == body.length) {
            self.complete.push(match body.bytes {
                Some(bytes) => {
                    self.kept += bytes.len();
                    FramedMessage::Plain(bytes.into())
                }
                None if body.compressed => FramedMessage::Compressed(body.length),
                None => FramedMessage::Omitted(body.length),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(flag: u8, message: &[u8]) -> Vec<u8> {
        let length = u32::try_from(message.len()).expect("short").to_be_bytes();
        [&[flag][..], &length, message].concat()
    }

    fn read(stream: &[u8], piece: usize) -> Vec<FramedMessage> {
        let mut messages = Messages::default();
        let mut counted = 0;
        for piece in stream.chunks(piece.max(1)) {
            counted += messages.push(Bytes::copy_from_slice(piece));
        }
        assert_eq!(counted, messages.complete.len());
        messages.complete
    }

    proptest! {
        #[test]
        fn messages_are_the_same_however_they_are_cut(
            sent in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..6),
            piece in 1_usize..60,
        ) {
            let mut stream = Vec::new();
            for (compressed, message) in &sent {
                stream.extend(frame(u8::from(*compressed), message));
            }
            let expected: Vec<FramedMessage> = sent.into_iter().map(|(compressed, message)| match compressed {
                true => FramedMessage::Compressed(message.len()),
                false => FramedMessage::Plain(message.into()),
            }).collect();
            prop_assert_eq!(read(&stream, piece), expected);
        }
    }

    #[test]
    fn a_message_that_is_too_large_leaves_its_size_and_the_next_is_read() {
        let mut messages = Messages::default();
        let large = u32::try_from(KEPT_MAX + 1).expect("a length");
        messages.push(Bytes::from([&[0][..], &large.to_be_bytes()].concat()));
        for _ in 0..=KEPT_MAX / (1 << 20) {
            messages.push(Bytes::from(vec![7; 1 << 20]));
        }
        // The last piece was longer than the rest of the message: what follows reads as the start of another.
        assert_eq!(
            messages.complete.first(),
            Some(&FramedMessage::Omitted(KEPT_MAX + 1))
        );
        assert!(messages.body.is_some_and(|body| body.bytes.is_none()));
    }
}
