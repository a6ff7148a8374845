//! Octets written as pairs of hexadecimal digits, with any white space between.

use std::io::{self, BufReader, Read};

/// Reads octets from their hexadecimal text.
#[derive(Debug)]
pub struct HexReader<R> {
    text: BufReader<R>,
}

impl<R: Read> HexReader<R> {
    /// Reads the text from `text`.
    pub fn new(text: R) -> Self {
        Self {
            text: BufReader::new(text),
        }
    }

    fn digit(&mut self) -> io::Result<Option<u8>> {
        let mut octet = [0_u8; 1];
        loop {
            if self.text.read(&mut octet)? == 0 {
                return Ok(None);
            }
            let [character] = octet;
            if character.is_ascii_whitespace() {
                continue;
            }
            let value = char::from(character)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok());
            return value.map(Some).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{:?} is not a hexadecimal digit", char::from(character)),
                )
            });
        }
    }
}

impl<R: Read> Read for HexReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        for place in out {
            let Some(high) = self.digit()? else { break };
            let Some(low) = self.digit()? else {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "the last octet has only one hexadecimal digit",
                ));
            };
            *place = high << 4 | low;
            written += 1;
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<u8>, String> {
        let mut octets = Vec::new();
        HexReader::new(text.as_bytes())
            .read_to_end(&mut octets)
            .map_err(|error| error.to_string())?;
        Ok(octets)
    }

    #[test]
    fn white_space_and_case_do_not_matter() {
        assert_eq!(read("9f 88\n0A f\tF\n").unwrap(), [0x9f, 0x88, 0x0a, 0xff]);
        assert!(read("").unwrap().is_empty());
    }

    #[test]
    fn what_is_not_hexadecimal_is_named() {
        assert_eq!(read("9g").unwrap_err(), "'g' is not a hexadecimal digit");
        assert_eq!(
            read("9f8").unwrap_err(),
            "the last octet has only one hexadecimal digit"
        );
    }
}
