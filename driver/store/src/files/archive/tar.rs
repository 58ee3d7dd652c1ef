//! The tar format, read from a stream: ustar, GNU and pax headers, long names, large numbers, checksums, the end. Owns the
//! syntax; what an entry may do is decided by `unpack`. Nothing that an archive says makes this allocate more than
//! [`MAX_EXTENSION`].
//!
//! Our own, because the readers that there are keep an extension header of any size in memory: a few kilobytes of gzip
//! can say that a name has gigabytes.

use super::trouble::Trouble;
use std::collections::BTreeMap;
use std::io::{self, Read};

const BLOCK: usize = 512;
/// The longest extension header: a path of 4 KiB, and attributes of 64 KiB each.
pub(super) const MAX_EXTENSION: u64 = 1 << 20;
/// Extension headers before one entry.
const MAX_EXTENSIONS: usize = 8;
/// What an extended attribute may hold at most, in bytes (xattr(7)).
const MAX_ATTRIBUTE: usize = 1 << 16;
/// What stands before the name of one in its key.
const XATTR: &[u8] = b"SCHILY.xattr.";
/// What may follow the end, which writers pad to a record; all of it zeros.
const MAX_PADDING: u64 = 1 << 20;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    HardLink,
    Symlink,
    Device,
    Folder,
    Fifo,
}

/// A header, with what the extension headers before it say instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The path as it stands there: nothing of it is checked.
    pub path: Vec<u8>,
    /// What a link names.
    pub link: Vec<u8>,
    pub kind: Kind,
    /// Permission bits with the set-id bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds and nanoseconds since 1970.
    pub modified: (i64, u32),
    pub accessed: Option<(i64, u32)>,
    /// The content's length in bytes.
    pub size: u64,
    /// Extended attributes by name.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// An archive, entry by entry.
pub(super) struct Archive<R> {
    input: R,
    /// Content of the current entry that has not been read.
    content: u64,
    /// Bytes after that up to the next header.
    padding: u64,
}

/// What extension headers say of the entry after them, by the keys of pax.
#[derive(Default)]
struct Extensions(BTreeMap<Vec<u8>, Vec<u8>>);

impl<R: Read> Archive<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            content: 0,
            padding: 0,
        }
    }

    /// The next entry; nothing at the archive's end, which is read to the end of the stream, so that its checksum is seen.
    /// What was not read of the entry before is passed over.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, Trouble> {
        let mut extensions = Extensions::default();
        for count in 0..=MAX_EXTENSIONS {
            self.skip()?;
            let mut block = [0; BLOCK];
            self.input.read_exact(&mut block).map_err(broken)?;
            if block.iter().all(|byte| *byte == 0) {
                if count > 0 {
                    return Err(truncated());
                }
                return self.end().map(|()| None);
            }
            let header = Header(&block);
            header.check()?;
            let size = header.number(124..136, "size")?;
            match block[156] {
                b'x' => extensions.read_pax(&self.extension(size)?)?,
                // For all that follows; the writers that are expected here put a comment there, if anything.
                b'g' => Extensions::default().read_global(&self.extension(size)?)?,
                b'L' => extensions.set("path", until_nul(&self.extension(size)?)),
                b'K' => extensions.set("linkpath", until_nul(&self.extension(size)?)),
                kind => {
                    let entry = header.entry(kind, size, &extensions)?;
                    self.set_content(entry.size);
                    return Ok(Some(entry));
                }
            }
        }
        Err(Trouble::refused(format!(
            "more than {MAX_EXTENSIONS} extension headers stand before one entry"
        )))
    }

    /// Fills `buffer` with content of the current entry, as far as there is some. Returns how much that was.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Trouble> {
        let content = usize::try_from(self.content).unwrap_or(usize::MAX);
        let most = content.min(buffer.len());
        self.input.read_exact(&mut buffer[..most]).map_err(broken)?;
        self.content -= most as u64;
        Ok(most)
    }

    fn set_content(&mut self, size: u64) {
        self.content = size;
        self.padding = size.wrapping_neg() % BLOCK as u64;
    }

    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Trouble> {
        if size > MAX_EXTENSION {
            return Err(Trouble::refused(format!(
                "an extension header has {size} bytes, at most {MAX_EXTENSION} are read"
            )));
        }
        self.set_content(size);
        let mut content = vec![0; usize::try_from(size).unwrap_or(0)];
        self.read(&mut content)?;
        Ok(content)
    }

    fn skip(&mut self) -> Result<(), Trouble> {
        self.content = self.content.saturating_add(self.padding);
        self.padding = 0;
        while self.read(&mut [0; 8192])? > 0 {}
        Ok(())
    }

    fn end(&mut self) -> Result<(), Trouble> {
        let mut rest = [0; 8192];
        let mut seen = 0;
        loop {
            match self.input.read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    seen += read as u64;
                    if seen > MAX_PADDING || rest[..read].iter().any(|byte| *byte != 0) {
                        return Err(Trouble::refused("something follows its end"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

/// What it means that the stream cannot be read.
fn broken(error: io::Error) -> Trouble {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => truncated(),
        // The file system's; what is wrong with the archive itself has no number.
        _ if error.raw_os_error().is_some() => Trouble::Io("reading the archive at", error),
        _ => Trouble::refused(format!("it cannot be read: {error}")),
    }
}

struct Header<'a>(&'a [u8; BLOCK]);

impl Header<'_> {
    fn check(&self) -> Result<(), Trouble> {
        let said = self.number(148..156, "checksum")?;
        let bytes = || {
            let sum = 148..156;
            let at = self.0.iter().enumerate();
            at.map(move |(index, byte)| if sum.contains(&index) { b' ' } else { *byte })
        };
        let sum: u64 = bytes().map(u64::from).sum();
        // Some old writers took bytes for signed numbers.
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        match said == sum || i64::try_from(said) == Ok(signed) {
            true => Ok(()),
            false => Err(Trouble::refused(
                "a header has a wrong checksum: the archive is damaged, or is no tar archive",
            )),
        }
    }

    /// Octal digits, or a big-endian number after a set bit where there are too few of them.
    fn number(&self, at: std::ops::Range<usize>, what: &'static str) -> Result<u64, Trouble> {
        let field = &self.0[at];
        let wrong = || no_number(what);
        if field[0] == 0x80 {
            let (high, low) = field.split_at(field.len().saturating_sub(8).max(1));
            if high[1..].iter().any(|byte| *byte != 0) {
                return Err(wrong());
            }
            return Ok(low
                .iter()
                .fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
        }
        let text = until_nul(field).trim_ascii();
        if text.is_empty() {
            return Ok(0);
        }
        if !text.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
            return Err(wrong());
        }
        let text = std::str::from_utf8(text).map_err(|_| wrong())?;
        u64::from_str_radix(text, 8).map_err(|_| wrong())
    }

    /// As [`Header::number`], which may also be before 1970.
    fn time(&self, at: std::ops::Range<usize>) -> Result<i64, Trouble> {
        let field = &self.0[at.clone()];
        if field[0] == 0xff {
            let low = field[field.len() - 8..].try_into();
            return low.map(i64::from_be_bytes).map_err(|_| no_number("time"));
        }
        i64::try_from(self.number(at, "time")?).map_err(|_| no_number("time"))
    }

    fn path(&self) -> Vec<u8> {
        let name = until_nul(&self.0[..100]);
        let prefix = until_nul(&self.0[345..500]);
        // GNU's own form has other things at that place.
        if &self.0[257..263] == b"ustar\0" && !prefix.is_empty() {
            return [prefix, b"/", name].concat();
        }
        name.to_vec()
    }

    fn entry(&self, kind: u8, size: u64, extensions: &Extensions) -> Result<Entry, Trouble> {
        let path = extensions.get("path").cloned();
        let path = path.unwrap_or_else(|| self.path());
        let kind = match kind {
            // Before there was a type for folders.
            b'0' | 0 if path.ends_with(b"/") => Kind::Folder,
            b'0' | b'7' | 0 => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Folder,
            b'6' => Kind::Fifo,
            b'S' => return Err(sparse()),
            other => {
                return Err(Trouble::refused(format!(
                    "it has an entry of the type {:?}, which is not supported",
                    char::from(other)
                )));
            }
        };
        let size = match extensions.get("size") {
            Some(size) => decimal(size)?,
            None => size,
        };
        if kind != Kind::File && size != 0 {
            return Err(Trouble::refused(format!(
                "an entry without content has a size of {size} bytes"
            )));
        }
        let id = |key, at, what| match extensions.get(key) {
            Some(id) => as_id(decimal(id)?, what),
            None => as_id(self.number(at, what)?, what),
        };
        let time = |key| extensions.get(key).map(|time| pax_time(time)).transpose();
        Ok(Entry {
            path,
            link: match extensions.get("linkpath") {
                Some(link) => link.clone(),
                None => until_nul(&self.0[157..257]).to_vec(),
            },
            kind,
            // Beyond the permissions stand bits of the type.
            mode: (self.number(100..108, "mode")? & 0o7777) as u32,
            uid: id("uid", 108..116, "owner")?,
            gid: id("gid", 116..124, "group")?,
            modified: match time("mtime")? {
                Some(time) => time,
                None => (self.time(136..148)?, 0),
            },
            accessed: time("atime")?,
            size,
            attributes: extensions.attributes(),
        })
    }
}

impl Extensions {
    fn get(&self, key: &str) -> Option<&Vec<u8>> {
        self.0.get(key.as_bytes())
    }

    fn set(&mut self, key: &str, value: &[u8]) {
        self.0.insert(key.into(), value.to_vec());
    }

    fn read_pax(&mut self, content: &[u8]) -> Result<(), Trouble> {
        for_each_pax(content, |key, value| {
            if key.starts_with(b"GNU.sparse.") {
                return Err(sparse());
            }
            if key.starts_with(XATTR) && value.len() > MAX_ATTRIBUTE {
                return Err(Trouble::refused(format!(
                    "an extended attribute has {} bytes, and at most {MAX_ATTRIBUTE} can be set",
                    value.len()
                )));
            }
            self.0.insert(key.to_vec(), value.to_vec());
            Ok(())
        })
    }

    /// What it says is for all entries, and nothing of it may decide what is written where.
    fn read_global(mut self, content: &[u8]) -> Result<(), Trouble> {
        self.read_pax(content)?;
        match ["path", "linkpath", "size"]
            .iter()
            .any(|key| self.get(key).is_some())
        {
            true => Err(not_of_its_form()),
            false => Ok(()),
        }
    }

    fn attributes(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let attribute = |(key, value): (&Vec<u8>, &Vec<u8>)| match key.strip_prefix(XATTR) {
            Some(name) => Some((name.to_vec(), value.clone())),
            None => (key.starts_with(b"SCHILY.acl.")).then(|| (b"system.acl".to_vec(), Vec::new())),
        };
        self.0.iter().filter_map(attribute).collect()
    }
}

/// Records of the form `length key=value\n`, where the length counts the whole record.
fn for_each_pax(
    mut content: &[u8],
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    while !content.is_empty() {
        // Some writers pad with zeros.
        if content.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let wrong = not_of_its_form;
        let space = content.iter().take(20).position(|byte| *byte == b' ');
        let space = space.ok_or_else(wrong)?;
        let length = usize::try_from(decimal(&content[..space])?).map_err(|_| wrong())?;
        if length <= space || length > content.len() {
            return Err(wrong());
        }
        let (record, rest) = content.split_at(length);
        let record = record[space + 1..].strip_suffix(b"\n").ok_or_else(wrong)?;
        let equals = record.iter().position(|byte| *byte == b'=');
        let (key, value) = record.split_at(equals.ok_or_else(wrong)?);
        each(key, &value[1..])?;
        content = rest;
    }
    Ok(())
}

fn decimal(text: &[u8]) -> Result<u64, Trouble> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(text).ok().filter(|_| digits);
    number
        .and_then(|text| text.parse().ok())
        .ok_or_else(not_of_its_form)
}

/// Seconds, with a sign and a fraction where there is one.
fn pax_time(text: &[u8]) -> Result<(i64, u32), Trouble> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let dot = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match dot {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    let seconds = i64::try_from(decimal(whole)?).map_err(|_| not_of_its_form())?;
    if !fraction.iter().all(u8::is_ascii_digit) {
        return Err(not_of_its_form());
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0'));
    let nanoseconds = digits
        .take(9)
        .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Ok(match (negative, nanoseconds) {
        (false, _) => (seconds, nanoseconds),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanoseconds),
    })
}

/// The kernel takes the largest number for "leave it as it is".
fn as_id(number: u64, what: &'static str) -> Result<u32, Trouble> {
    match u32::try_from(number) {
        Ok(id) if id != u32::MAX => Ok(id),
        _ => Err(no_number(what)),
    }
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn truncated() -> Trouble {
    Trouble::refused("it ends in the middle: it was cut short, or never written to its end")
}

fn not_of_its_form() -> Trouble {
    Trouble::refused("an extension header is not of its form")
}

fn no_number(what: &str) -> Trouble {
    Trouble::refused(format!("a header has no number where its {what} should be"))
}

fn sparse() -> Trouble {
    Trouble::refused(
        "it has a sparse file, which is not supported: such archives are made with tar --sparse only",
    )
}
