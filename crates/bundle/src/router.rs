//! The routers that files name.

/// A router: it decides which neighbours get a bundle. Each has its name in node files and scenarios, where it is one of [`RouterKind::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouterKind {
    /// Routes: one neighbour at a time, the best that is up.
    #[default]
    Static,
    /// All neighbours, each once: a copy stays until the bundle expires or its destination's node has it.
    Flood,
    /// A bounded number of copies, half of them handed on at each meeting; who has the last one meets the destination's node (binary spray and wait).
    SprayAndWait,
    /// Neighbours that have met the destination's node more often, or nodes that have (RFC 6693).
    Prophet,
}

impl RouterKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Static, Self::Flood, Self::SprayAndWait, Self::Prophet];

    /// Their names, in the same order.
    pub const NAMES: &[&str] = &[
        Self::Static.name(),
        Self::Flood.name(),
        Self::SprayAndWait.name(),
        Self::Prophet.name(),
    ];

    /// Its name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Flood => "flood",
            Self::SprayAndWait => "spray-and-wait",
            Self::Prophet => "prophet",
        }
    }

    /// The router of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|router| router.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_router_is_found_by_its_name() {
        assert_eq!(RouterKind::ALL.len(), RouterKind::NAMES.len());
        for (router, name) in RouterKind::ALL.into_iter().zip(RouterKind::NAMES) {
            assert_eq!(router.name(), *name);
            assert_eq!(RouterKind::named(name), Some(router));
        }
        assert_eq!(RouterKind::named("Flood"), None);
    }
}
