//! The first file system of a machine: an archive in cpio's format "newc", which Linux unpacks as it boots.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
/// The name that ends an archive.
const END: &str = "TRAILER!!!";

/// An archive in memory. It is not compressed: the emulated machine copies faster than it inflates.
#[derive(Default)]
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Initramfs {
    /// Adds a file of this machine at a path, with its folders.
    pub(super) fn add(&mut self, path: &str, from: &Path) -> io::Result<()> {
        let mode = FILE | fs::metadata(from)?.permissions().mode() & 0o777;
        self.add_bytes(path, mode, &fs::read(from)?);
        Ok(())
    }

    /// Adds a text at a path, with its folders.
    pub(super) fn add_text(&mut self, path: &str, text: &str) {
        self.add_bytes(path, FILE | 0o644, text.as_bytes());
    }

    /// Adds a folder, with those that it is in.
    pub(super) fn add_folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        if path.is_empty() || !self.folders.insert(path.to_owned()) {
            return;
        }
        if let Some((outer, _)) = path.rsplit_once('/') {
            self.add_folder(outer);
        }
        self.entry(path, FOLDER, &[]);
    }

    /// Returns the archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, &[]);
        self.bytes
    }

    fn add_bytes(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.add_folder(folder);
        }
        self.entry(path, mode, content);
    }

    /// Writes an entry: a header of numbers in hexadecimal digits, the name and the content, each padded to four bytes.
    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let (links, size, name_size) = (1, content.len() as u32, name.len() as u32 + 1);
        // Inode, mode, owner, group, links, time, size, device (2), device of a node (2), bytes of the name, checksum.
        let numbers = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend_from_slice(b"070701");
        for number in numbers {
            self.bytes.extend_from_slice(format!("{number:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_each_folder_once_and_before_its_files() {
        let mut archive = Initramfs::default();
        archive.add_text("/a/b/one", "1");
        archive.add_text("/a/b/two", "22");
        let bytes = archive.finish();
        assert!(bytes.len().is_multiple_of(4));
        let names = names(&bytes);
        assert_eq!(names, ["a", "a/b", "a/b/one", "a/b/two", END]);
    }

    /// Reads the names, by the sizes in the headers.
    fn names(mut bytes: &[u8]) -> Vec<String> {
        let mut names = Vec::new();
        while !bytes.is_empty() {
            let number = |index: usize| {
                let digits = std::str::from_utf8(&bytes[6 + 8 * index..][..8]).unwrap();
                usize::from_str_radix(digits, 16).unwrap()
            };
            assert!(bytes.starts_with(b"070701"));
            let (size, name) = (number(6), number(11));
            names.push(String::from_utf8(bytes[110..110 + name - 1].to_vec()).unwrap());
            bytes = &bytes[(110 + name).next_multiple_of(4) + size.next_multiple_of(4)..];
        }
        names
    }
}
