//! A core dump: an ELF file with the memory of a process that has ended.

use crate::error::InspectError;
use crate::memory::{KernelMapping, Residency, Source};
use object::elf::{self, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, ReadRef};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A core dump. Only its headers are held; memory is read from the file when it is asked for.
#[derive(Debug)]
pub struct CoreDump {
    file: File,
    /// By address, without overlaps.
    segments: Vec<Dumped>,
    /// Bytes of the file, and those that its headers tell of.
    bytes: [u64; 2],
}

/// A mapping, and the part of it that was dumped.
#[derive(Debug)]
struct Dumped {
    start: u64,
    end: u64,
    /// Bytes from its start on that are in the file, and where.
    file_bytes: u64,
    offset: u64,
    flags: elf::ProgramFlags,
}

/// The most segments: a program may have 65,530 mappings, unless it was given more.
const MOST_SEGMENTS: usize = 1 << 22;

impl CoreDump {
    /// Opens a core dump.
    ///
    /// # Errors
    /// When the file can't be read, or is none.
    pub fn open(path: &Path) -> Result<Self, InspectError> {
        let refused = |why: String| InspectError::NotACore { path: path.display().to_string(), why };
        let file = File::open(path).map_err(|error| refused(error.to_string()))?;
        Self::of(file).map_err(refused)
    }

    /// Looks at a core dump that is open, perhaps without a name.
    ///
    /// # Errors
    /// What the file is, if it is none.
    pub fn of(file: File) -> Result<Self, String> {
        let bytes = file.metadata().map_err(|error| error.to_string())?.len();
        let mut head = [0; 16];
        let read = file.read_at(&mut head, 0).map_err(|error| error.to_string())?;
        if let Some(name) = name(&head[..read]) {
            return Err(name.into());
        }
        let (mut segments, told) = headers(&ReadCache::new(&file))?;
        for segment in &mut segments {
            segment.file_bytes = segment.file_bytes.min(bytes.saturating_sub(segment.offset));
        }
        Ok(Self { file, segments, bytes: [bytes, told] })
    }

    /// Returns the segment with `addr` in it.
    fn segment(&self, addr: u64) -> Option<&Dumped> {
        let after = self.segments.partition_point(|segment| segment.start <= addr);
        self.segments.get(after.checked_sub(1)?).filter(|segment| addr < segment.end)
    }
}

/// Returns what a file is that begins with these bytes, if that is known and no core dump.
fn name(head: &[u8]) -> Option<&'static str> {
    Some(match head {
        [] => "it is empty",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed, by zstd",
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "it is compressed, by xz",
        [0x1f, 0x8b, ..] => "it is compressed, by gzip",
        [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => "it is compressed, by lz4",
        [b'B', b'Z', b'h', ..] => "it is compressed, by bzip2: decompress it",
        [b'P', b'K', 3, 4, ..] => "it is a zip archive: unpack it",
        [b'M', b'D', b'M', b'P', ..] => {
            "it is a minidump (Breakpad, Crashpad, Windows), which has no memory but that of stacks"
        }
        [b'P', b'r', b'o', b'b', b'l', b'e', b'm', b'T', b'y', b'p', b'e', ..] => {
            "it is a report of apport: `apport-unpack FILE FOLDER` has the dump of it as CoreDump"
        }
        [0xcf | 0xce, 0xfa, 0xed, 0xfe, ..] => "it is a file of macOS",
        [b'K', b'D', b'U', b'M', b'P', ..] => "it is a dump of a kernel, by makedumpfile",
        [0x7f, b'E', b'L', b'F', 1, ..] => "it is an ELF file of 32 bits",
        [0x7f, b'E', b'L', b'F', _, 2, ..] => "it is an ELF file of a machine with the highest byte first",
        [0x7f, b'E', b'L', b'F', ..] => return None,
        _ => "it is no ELF file",
    })
}

/// Returns what was dumped, and the length of the whole file.
fn headers<'a>(file: impl ReadRef<'a>) -> Result<(Vec<Dumped>, u64), String> {
    let header = FileHeader64::<LittleEndian>::parse(file).map_err(|error| error.to_string())?;
    let endian = header.endian().map_err(|error| error.to_string())?;
    if header.e_type(endian) != elf::ET_CORE {
        return Err("an ELF file of another type".into());
    }
    let headers = header
        .program_headers(endian, file)
        .map_err(|error| format!("its headers can't be read, perhaps as it is cut off: {error}"))?;
    if headers.len() > MOST_SEGMENTS {
        return Err(format!("it has {} segments", headers.len()));
    }
    let loads = headers.iter().filter(|header| header.p_type(endian) == elf::PT_LOAD);
    let dumped = |header: &elf::ProgramHeader64<LittleEndian>| {
        let (start, bytes) = (header.p_vaddr(endian), header.p_memsz(endian));
        let (offset, flags) = (header.p_offset(endian), header.p_flags(endian));
        let file_bytes = header.p_filesz(endian).min(bytes);
        Some(Dumped { start, end: start.checked_add(bytes)?, file_bytes, offset, flags })
    };
    let mut segments: Vec<_> =
        loads.filter_map(dumped).filter(|segment| segment.start < segment.end).collect();
    segments.sort_by_key(|segment| segment.start);
    let ends = headers.iter().map(|header| header.p_offset(endian).saturating_add(header.p_filesz(endian)));
    let told = ends.max().unwrap_or(0);
    let overlap = segments.windows(2).any(|pair| pair[0].end > pair[1].start);
    if overlap { Err("its segments overlap".into()) } else { Ok((segments, told)) }
}

impl Source for CoreDump {
    fn read_at(&self, addr: u64, buffer: &mut [u8]) -> Result<usize, InspectError> {
        let Some(segment) = self.segment(addr) else { return Ok(0) };
        let from = addr - segment.start;
        let rest = segment.file_bytes.saturating_sub(from).min(buffer.len() as u64) as usize;
        let Some(offset) = segment.offset.checked_add(from) else { return Ok(0) };
        Ok(self.file.read_at(&mut buffer[..rest], offset).unwrap_or(0))
    }

    fn mappings(&self) -> Result<Vec<KernelMapping>, InspectError> {
        let right = |flags: elf::ProgramFlags, right: elf::ProgramFlags, letter| {
            if flags.0 & right.0 != 0 { letter } else { '-' }
        };
        let mapping = |segment: &Dumped| {
            let flags = segment.flags;
            let rights =
                [right(flags, elf::PF_R, 'r'), right(flags, elf::PF_W, 'w'), right(flags, elf::PF_X, 'x')];
            let rights = rights.iter().collect();
            KernelMapping { start: segment.start, end: segment.end, rights, name: None, is_file: false }
        };
        Ok(self.segments.iter().map(mapping).collect())
    }

    fn residency(&self, addrs: Range<u64>, page_bytes: u64) -> Option<Residency> {
        let part = |segment: &Dumped| {
            let end = addrs.end.min(segment.start + segment.file_bytes);
            end.saturating_sub(addrs.start.max(segment.start)) / page_bytes
        };
        let first = self.segments.partition_point(|segment| segment.end <= addrs.start);
        let within = self.segments[first..].iter().take_while(|segment| segment.start < addrs.end);
        let pages = addrs.end.checked_sub(addrs.start)? / page_bytes;
        Some(Residency { resident: within.map(part).sum(), pages, ..Residency::default() })
    }

    fn clock(&self) -> Option<u64> {
        None
    }

    fn cut(&self) -> Option<InspectError> {
        let [bytes, told] = self.bytes;
        (bytes < told).then_some(InspectError::Cut { told, bytes })
    }
}
