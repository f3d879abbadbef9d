//! Compressed files, told by their first bytes; and UTF-16, told by its mark.
//!
//! ```text
//!   fd 37 7a 58 5a 00   xz, any number of streams one behind the other
//!   1f 8b               gzip, any number of members
//!   04 22 4d 18         lz4, any number of frames
//!   28 b5 2f fd         zstd, any number of frames; 5x 2a 4d 18 begins one to be skipped
//! ```
//!
//! A stream that ends too early gives what it holds, and then an error. Streams that need more than
//! 192 MiB of memory are refused: the strongest preset of xz needs 65 MiB, and zstd frames with
//! windows above 128 MiB are made only where both sides agree.

use encoding_rs_io::DecodeReaderBytesBuilder;
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder as Lz4Decoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::errors::ReadFrameHeaderError::SkipFrame;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use serde::Serialize;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Memory that a stream of xz may want, in KiB.
const XZ_KIB: u32 = 192 << 10;
/// Bytes that are read at a time.
const BUFFER: usize = 64 << 10;

/// How a file was compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not at all.
    Plain,
    /// By `xz`.
    Xz,
    /// By `gzip`.
    Gzip,
    /// By `zstd`.
    Zstd,
    /// By `lz4`.
    Lz4,
}

impl Compression {
    fn of(head: &[u8]) -> Self {
        match head {
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// Opens a source and decompresses it. A text with the byte order mark of UTF-8 or UTF-16 becomes
/// UTF-8 without a mark. All other bytes stay as they are.
///
/// # Errors
/// When its first bytes can't be read.
pub fn open<'a>(mut source: impl Read + 'a) -> io::Result<(Compression, Box<dyn BufRead + 'a>)> {
    const MARK: u64 = 8;
    let mut head = Vec::new();
    source.by_ref().take(MARK).read_to_end(&mut head)?;
    let compression = Compression::of(&head);
    let source = BufReader::with_capacity(BUFFER, Cursor::new(head).chain(source));
    let plain: Box<dyn Read + 'a> = match compression {
        Compression::Plain => Box::new(source),
        Compression::Xz => Box::new(XzReader::new_mem_limit(source, true, XZ_KIB)),
        Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
        Compression::Lz4 => Box::new(Lz4(Some(Lz4Decoder::new(Ending { source, has_ended: false })))),
        Compression::Zstd => Box::new(Zstd { source, decoder: FrameDecoder::new(), is_inside: false }),
    };
    let text = DecodeReaderBytesBuilder::new().utf8_passthru(true).strip_bom(true).build(plain);
    Ok((compression, Box::new(BufReader::with_capacity(BUFFER, text))))
}

/// Frames of lz4, one behind the other; `None` behind the last.
struct Lz4<R: BufRead>(Option<Lz4Decoder<Ending<R>>>);

impl<R: BufRead> Read for Lz4<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let count = decoder.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            // The decoder does not tell the end of a frame from one that is cut off.
            let Ending { source, has_ended } = decoder.get_mut();
            if *has_ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if source.fill_buf()?.is_empty() {
                self.0 = None;
            }
        }
        Ok(0)
    }
}

/// A source that knows whether more was asked of it than there was.
struct Ending<R> {
    source: R,
    has_ended: bool,
}

impl<R: Read> Read for Ending<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(into)?;
        self.has_ended |= count == 0 && !into.is_empty();
        Ok(count)
    }
}

/// Frames of zstd, one behind the other.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// A frame has begun, and its checksum was not looked at.
    is_inside: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        use FrameDecoderError::ReadFrameHeaderError;
        let Self { source, decoder, is_inside } = self;
        while decoder.can_collect() == 0 {
            if *is_inside && !decoder.is_finished() {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                decoder.decode_blocks(&mut *source, block).map_err(io::Error::other)?;
                continue;
            }
            let (stored, counted) = (decoder.get_checksum_from_data(), decoder.get_calculated_checksum());
            if std::mem::take(is_inside) && stored.is_some() && stored != counted {
                return Err(io::Error::other("a frame whose checksum is wrong"));
            }
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match decoder.reset(&mut *source) {
                Ok(()) => *is_inside = true,
                Err(ReadFrameHeaderError(SkipFrame { length, .. })) => {
                    let skipped = io::copy(&mut source.by_ref().take(length.into()), &mut io::sink())?;
                    if skipped != u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        decoder.read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    const TEXT: &[u8] = include_bytes!("../../tests/data/vmallocinfo.txt");

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    }

    /// With a checksum of the whole, as `lz4` writes it.
    fn lz4(text: &[u8]) -> Vec<u8> {
        let info = lz4_flex::frame::FrameInfo::new().content_checksum(true);
        let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(text).expect("memory");
        encoder.finish().expect("memory")
    }

    /// Returns the text before an error, and true if there was one.
    fn unpack(bytes: &[u8]) -> (Compression, Vec<u8>, bool) {
        let (compression, mut source) = open(bytes).expect("memory");
        let mut text = Vec::new();
        // The end stays the end.
        let failed = (0..2).any(|_| source.read_to_end(&mut text).is_err());
        (compression, text, failed)
    }

    fn all() -> [(Compression, Vec<u8>); 5] {
        let xz = include_bytes!("../../tests/data/vmallocinfo.txt.xz").to_vec();
        [
            (Compression::Plain, TEXT.to_vec()),
            (Compression::Xz, xz),
            (Compression::Gzip, gzip(TEXT)),
            (Compression::Zstd, zstd(TEXT)),
            (Compression::Lz4, lz4(TEXT)),
        ]
    }

    #[test]
    fn compression_is_detected_and_streams_may_be_concatenated() {
        for (compression, bytes) in all() {
            assert_eq!(unpack(&bytes), (compression, TEXT.to_vec(), false));
            assert_eq!(unpack(&bytes.repeat(3)), (compression, TEXT.repeat(3), false));
        }
        assert_eq!(unpack(b""), (Compression::Plain, Vec::new(), false));
        let mut skipped = vec![0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        skipped.extend(zstd(TEXT));
        assert_eq!(unpack(&skipped), (Compression::Zstd, TEXT.to_vec(), false));
    }

    #[test]
    fn truncated_stream_gives_its_content_and_an_error() {
        for (compression, bytes) in &all()[1..] {
            let twice = bytes.repeat(2);
            let (_, text, failed) = unpack(&twice[..twice.len() - 9]);
            assert!(
                failed && text.len() >= TEXT.len() && TEXT.repeat(2).starts_with(&text),
                "{compression:?}"
            );
            for length in 6..bytes.len() {
                let (_, text, failed) = unpack(&bytes[..length]);
                assert!(failed && TEXT.starts_with(&text), "{compression:?} {length}");
            }
        }
    }

    #[test]
    fn a_changed_byte_is_noticed_or_changes_nothing() {
        for (compression, bytes) in &all()[1..] {
            for at in (0..bytes.len()).step_by(61) {
                let mut changed = bytes.clone();
                changed[at] ^= 0x55;
                let (_, text, failed) = unpack(&changed);
                assert!(failed || text == TEXT || text == changed, "{compression:?} {at}");
            }
        }
    }
}
