//! Files of maps, and of places on them.

use super::{MANY_MAX, Writer, Wrong, toml_text, whole};

impl Writer<'_> {
    /// The path of a file that settings name; a note where there is none.
    pub(super) fn path(&mut self, name: &str) -> String {
        let path = self.root.join(name);
        if !path.is_file() {
            self.note(format!("{name}: there is no file {}", path.display()));
        }
        path.to_string_lossy().into_owned()
    }

    pub(super) fn write_maps(&mut self, group: u64) -> Result<(), Wrong> {
        let count = self.count("MapBasedMovement.nrofMapFiles", MANY_MAX)?;
        let chosen = self.of(group, "okMaps", |text| {
            let numbers = text.split(',').map(|text| whole(text, MANY_MAX));
            numbers.collect::<Option<Vec<u64>>>()
        })?;
        let mut files = Vec::new();
        for map in 1..=count {
            let file = self.need(&format!("MapBasedMovement.mapFile{map}"), |text| {
                Some(text.to_owned())
            })?;
            if chosen.as_ref().is_none_or(|chosen| chosen.contains(&map)) {
                files.push(toml_text(&self.path(&file)));
            }
        }
        let files = files.join(", ");
        self.line(format_args!("map = [{files}]"));
        Ok(())
    }
}
