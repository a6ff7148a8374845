//! Streets of OpenStreetMap's PBF: the same as in its XML, in blocks of compressed messages (wiki.openstreetmap.org/wiki/PBF_Format).
//!
//! A file is read twice: for the streets first, and then for the places of their points, so that points of nothing else take memory.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read};
use std::path::Path;

use dhow_document::FileError;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use prost::Message;

use super::osm::Projection;
use super::{FILE_OCTETS_MAX, POINTS_MAX, Street};
use crate::generator::meeting::Place;
use crate::regular_file::RegularFile;

/// Octets of the head of a block, at most, and of the block, compressed or not: the format's own bounds.
const HEAD_OCTETS_MAX: u32 = 64 << 10;
const BLOCK_OCTETS_MAX: u32 = 32 << 20;

/// Points of all streets together, at most, those in several streets each time.
const REFERENCES_MAX: usize = 4 * POINTS_MAX;

/// The required features of a file that this reader knows.
const KNOWN: [&str; 2] = ["OsmSchema-V0.6", "DenseNodes"];

const HINT: &str = "an extract of OpenStreetMap (.osm.pbf) with zlib or no compression";

/// A fault's text.
type Wrong = String;

#[derive(Clone, PartialEq, Message)]
struct BlobHeader {
    #[prost(string, required, tag = "1")]
    kind: String,
    #[prost(int32, required, tag = "3")]
    octets: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Blob {
    #[prost(bytes = "vec", optional, tag = "1")]
    raw: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    zlib: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct HeaderBlock {
    #[prost(string, repeated, tag = "4")]
    required_features: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct PrimitiveBlock {
    #[prost(message, optional, tag = "1")]
    texts: Option<StringTable>,
    #[prost(message, repeated, tag = "2")]
    groups: Vec<PrimitiveGroup>,
    #[prost(int32, optional, tag = "17")]
    granularity: Option<i32>,
    #[prost(int64, optional, tag = "19")]
    latitude: Option<i64>,
    #[prost(int64, optional, tag = "20")]
    longitude: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct StringTable {
    #[prost(bytes = "vec", repeated, tag = "1")]
    texts: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct PrimitiveGroup {
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<Node>,
    #[prost(message, optional, tag = "2")]
    dense: Option<DenseNodes>,
    #[prost(message, repeated, tag = "3")]
    ways: Vec<Way>,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(sint64, required, tag = "1")]
    id: i64,
    #[prost(sint64, required, tag = "8")]
    latitude: i64,
    #[prost(sint64, required, tag = "9")]
    longitude: i64,
}

/// Each is as much more than the one before it.
#[derive(Clone, PartialEq, Message)]
struct DenseNodes {
    #[prost(sint64, repeated, tag = "1")]
    ids: Vec<i64>,
    #[prost(sint64, repeated, tag = "8")]
    latitudes: Vec<i64>,
    #[prost(sint64, repeated, tag = "9")]
    longitudes: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Way {
    #[prost(uint32, repeated, tag = "2")]
    keys: Vec<u32>,
    /// Each is as much more than the one before it.
    #[prost(sint64, repeated, tag = "8")]
    references: Vec<i64>,
}

/// Whether octets are the beginning of such a file.
pub(super) fn is_pbf(start: &[u8]) -> bool {
    start
        .get(4..)
        .is_some_and(|start| start.starts_with(b"\x0a\x09OSMHeader"))
}

/// The streets of a file.
///
/// # Errors
/// When it cannot be read, a block of it is none, or it has more than a map may have.
pub(super) fn read(file: &Path) -> Result<Vec<Street>, FileError> {
    read_ways(file).map_err(|what| FileError::of_file(file, what).with_hint(HINT))
}

fn read_ways(file: &Path) -> Result<Vec<Street>, Wrong> {
    let (mut streets, mut count) = (Vec::new(), 0_usize);
    each_block(file, |block| {
        let texts = block.texts.as_ref().map_or(&[][..], |it| &it.texts);
        let is_street = |way: &&Way| {
            let mut keys = way.keys.iter().filter_map(|key| texts.get(place(*key)));
            keys.any(|key| key == b"highway")
        };
        let ways = block.groups.iter().flat_map(|group| &group.ways);
        for way in ways.filter(is_street) {
            count = count.saturating_add(way.references.len());
            if count > REFERENCES_MAX {
                return Err(format!("streets have more than {REFERENCES_MAX} points"));
            }
            streets.push(sums(&way.references)?);
        }
        Ok(())
    })?;
    let mut places: BTreeMap<i64, Option<Place>> = BTreeMap::new();
    places.extend(streets.iter().flatten().map(|id| (*id, None)));
    let mut projection = Projection::default();
    each_block(file, |block| {
        let mut set = |id: i64, north: i64, east: i64| {
            let place = projection.place(degrees(north, 90)?, degrees(east, 180)?)?;
            if let Some(known) = places.get_mut(&id) {
                *known = Some(place);
            }
            Some(())
        };
        let granularity = i64::from(block.granularity.unwrap_or(100));
        let offsets = (block.latitude.unwrap_or(0), block.longitude.unwrap_or(0));
        let nano = |of: i64, offset: i64| of.checked_mul(granularity)?.checked_add(offset);
        for group in &block.groups {
            let nodes = group
                .nodes
                .iter()
                .map(|it| (it.id, it.latitude, it.longitude));
            let dense = group.dense.clone().unwrap_or_default();
            let (ids, north, east) = (
                sums(&dense.ids)?,
                sums(&dense.latitudes)?,
                sums(&dense.longitudes)?,
            );
            let dense = ids.into_iter().zip(north).zip(east);
            let dense = dense.map(|((id, north), east)| (id, north, east));
            for (id, north, east) in nodes.chain(dense) {
                let set = nano(north, offsets.0)
                    .zip(nano(east, offsets.1))
                    .and_then(|(north, east)| set(id, north, east));
                set.ok_or_else(|| format!("node {id} has no place"))?;
            }
        }
        Ok(())
    })?;
    // An extract leaves out points beyond its edge. There are no lines.
    let known = |id: &i64| places.get(id).copied().flatten();
    let streets = streets
        .iter()
        .map(|ids| (0, ids.iter().filter_map(known).collect()));
    Ok(streets.collect())
}

/// Gives each block of map in turn.
fn each_block(
    file: &Path,
    mut take: impl FnMut(&PrimitiveBlock) -> Result<(), Wrong>,
) -> Result<(), Wrong> {
    let unread = |error: io::Error| format!("cannot be read: {error}");
    let mut input = BufReader::new(RegularFile::open(file, FILE_OCTETS_MAX).map_err(unread)?);
    for number in 1_u64.. {
        let wrong = |what: &str| format!("block {number} {what}");
        let mut length = [0; 4];
        match input.read(&mut length).map_err(unread)? {
            0 => return Ok(()),
            read => {
                let rest = length.get_mut(read..).unwrap_or_default();
                input.read_exact(rest).map_err(|_| wrong("ends early"))?;
            }
        }
        let length = u32::from_be_bytes(length);
        if length > HEAD_OCTETS_MAX {
            return Err(wrong("has no head"));
        }
        let head = octets(&mut input, u64::from(length)).ok_or_else(|| wrong("ends early"))?;
        let head = BlobHeader::decode(&head[..]).map_err(|_| wrong("has no head"))?;
        let length = u64::try_from(head.octets).ok();
        let length = length.filter(|it| *it <= u64::from(BLOCK_OCTETS_MAX));
        let length = length.ok_or_else(|| wrong("is longer than blocks may be"))?;
        let blob = octets(&mut input, length).ok_or_else(|| wrong("ends early"))?;
        let blob = Blob::decode(&blob[..]).map_err(|_| wrong("cannot be decoded"))?;
        let block = match (blob.raw, blob.zlib) {
            (Some(raw), _) => raw,
            (None, Some(zlib)) => decompress_to_vec_zlib_with_limit(&zlib, place(BLOCK_OCTETS_MAX))
                .map_err(|_| wrong("cannot be decompressed"))?,
            (None, None) => return Err(wrong("is compressed otherwise than with zlib")),
        };
        match head.kind.as_str() {
            "OSMHeader" => {
                let header = HeaderBlock::decode(&block[..]);
                let header = header.map_err(|_| wrong("cannot be decoded"))?;
                let mut features = header.required_features.iter();
                if let Some(feature) = features.find(|it| !KNOWN.contains(&it.as_str())) {
                    return Err(format!("needs a reader that knows {feature}"));
                }
            }
            "OSMData" => {
                let block = PrimitiveBlock::decode(&block[..]);
                take(&block.map_err(|_| wrong("cannot be decoded"))?)?;
            }
            // Readers pass by what they do not know.
            _ => {}
        }
    }
    Ok(())
}

/// So many octets; none where there are fewer.
fn octets(input: &mut impl Read, count: u64) -> Option<Vec<u8>> {
    let mut octets = Vec::new();
    input.take(count).read_to_end(&mut octets).ok()?;
    (u64::try_from(octets.len()) == Ok(count)).then_some(octets)
}

/// Numbers of which each is said as its difference from the one before.
fn sums(differences: &[i64]) -> Result<Vec<i64>, Wrong> {
    let mut sum = 0_i64;
    let sums = differences.iter().map(|difference| {
        sum = sum.checked_add(*difference)?;
        Some(sum)
    });
    sums.collect::<Option<_>>()
        .ok_or_else(|| "a number is too large".to_owned())
}

/// Degrees of so many billionths; none where they are more than so many.
fn degrees(nano: i64, most: i32) -> Option<f64> {
    let (whole, part) = (nano / 1_000_000_000, nano % 1_000_000_000);
    let (whole, part) = (i32::try_from(whole).ok()?, i32::try_from(part).ok()?);
    let degrees = f64::from(whole) + f64::from(part) / 1e9;
    (degrees.abs() <= f64::from(most)).then_some(degrees)
}

fn place(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use miniz_oxide::deflate::compress_to_vec_zlib;
    use tempfile::TempDir;

    use super::*;

    fn block(kind: &str, blob: &Blob) -> Vec<u8> {
        let blob = blob.encode_to_vec();
        let head = BlobHeader {
            kind: kind.to_owned(),
            octets: i32::try_from(blob.len()).unwrap(),
        };
        let head = head.encode_to_vec();
        let length = u32::try_from(head.len()).unwrap().to_be_bytes();
        [&length[..], &head, &blob].concat()
    }

    fn raw(octets: Vec<u8>) -> Blob {
        Blob {
            raw: Some(octets),
            zlib: None,
        }
    }

    fn zlib(octets: &[u8]) -> Blob {
        Blob {
            raw: None,
            zlib: Some(compress_to_vec_zlib(octets, 6)),
        }
    }

    fn header(features: &[&str]) -> Vec<u8> {
        let required_features = features.iter().map(|it| (*it).to_owned()).collect();
        let header = HeaderBlock { required_features };
        block("OSMHeader", &raw(header.encode_to_vec()))
    }

    /// Three nodes, of which the last is one of its own, a street over all three and one that is not here, and a river.
    fn data() -> PrimitiveBlock {
        let way = |key: u32, references: &[i64]| Way {
            keys: vec![0, key],
            references: references.to_vec(),
        };
        PrimitiveBlock {
            texts: Some(StringTable {
                texts: [&b""[..], b"highway", b"waterway"]
                    .map(<[u8]>::to_vec)
                    .into(),
            }),
            groups: vec![
                PrimitiveGroup {
                    nodes: vec![Node {
                        id: 3,
                        latitude: 601_800_000,
                        longitude: 249_400_000,
                    }],
                    dense: Some(DenseNodes {
                        ids: vec![1, 1],
                        latitudes: vec![601_700_000, 0],
                        longitudes: vec![249_300_000, 100_000],
                    }),
                    ways: Vec::new(),
                },
                PrimitiveGroup {
                    ways: vec![way(1, &[1, 1, 1, 74]), way(2, &[1, 2])],
                    ..PrimitiveGroup::default()
                },
            ],
            ..PrimitiveBlock::default()
        }
    }

    fn file(blocks: &[Vec<u8>]) -> (TempDir, std::path::PathBuf) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("m.osm.pbf");
        fs::write(&path, blocks.concat()).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_has_the_streets_that_it_has_as_xml() {
        let known = header(&KNOWN);
        let data = data().encode_to_vec();
        let unknown = block("Unknown", &raw(vec![1, 2, 3]));
        let xml = "<osm><node id='3' lat='60.18' lon='24.94'/><node id='1' lat='60.17' lon='24.93'/><node id='2' lat='60.17' lon='24.94'/>\n<way id='9'><nd ref='1'/><nd ref='2'/><nd ref='3'/><nd ref='77'/><tag k='highway' v='residential'/></way></osm>";
        let expected = super::super::osm::read(Path::new("m.osm"), xml).unwrap();
        for blob in [raw(data.clone()), zlib(&data)] {
            let blocks = [known.clone(), unknown.clone(), block("OSMData", &blob)];
            assert!(is_pbf(&blocks.concat()) && !is_pbf(xml.as_bytes()));
            let (_folder, path) = file(&blocks);
            let streets = read(&path).unwrap();
            assert_eq!(streets.len(), 1);
            assert_eq!(streets[0].1, expected[0].1);
        }
    }

    #[test]
    fn what_is_no_such_file_is_refused_by_its_block() {
        let known = header(&KNOWN);
        let data = data();
        let whole = block("OSMData", &zlib(&data.encode_to_vec()));
        let mut far = data.clone();
        far.groups[0].nodes[0].latitude = 901_000_000;
        let mut huge = data.clone();
        huge.granularity = Some(i32::MAX);
        let mut beyond = data;
        beyond.groups[1].ways[0].references = vec![i64::MAX, 1];
        let long = BlobHeader {
            kind: "OSMData".to_owned(),
            octets: i32::MAX,
        };
        let long = long.encode_to_vec();
        let long = [&u32::try_from(long.len()).unwrap().to_be_bytes()[..], &long].concat();
        let bomb = zlib(&vec![0; place(BLOCK_OCTETS_MAX) + 1]);
        let as_block = |it: &PrimitiveBlock| block("OSMData", &raw(it.encode_to_vec()));
        for (second, expected) in [
            (whole[..whole.len() - 1].to_vec(), "block 2 ends early"),
            (whole[..2].to_vec(), "block 2 ends early"),
            (vec![0xff; 8], "block 2 has no head"),
            (long, "block 2 is longer than blocks may be"),
            (block("OSMData", &bomb), "block 2 cannot be decompressed"),
            (
                block("OSMData", &Blob::default()),
                "block 2 is compressed otherwise",
            ),
            (
                block("OSMData", &raw(vec![0xff; 9])),
                "block 2 cannot be decoded",
            ),
            (as_block(&far), "node 3 has no place"),
            (as_block(&huge), "has no place"),
            (as_block(&beyond), "a number is too large"),
            (
                header(&["HistoricalInformation"]),
                "knows HistoricalInformation",
            ),
        ] {
            let (_folder, path) = file(&[known.clone(), second]);
            let error = read(&path).unwrap_err();
            assert!(error.what.contains(expected), "{expected}: {}", error.what);
        }
    }
}
