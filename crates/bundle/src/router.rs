//! The routers that files name.

/// A router: it decides which neighbours get a bundle. Each has its name in node files and scenarios, where it is one of [`RouterKind::NAMES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouterKind {
    /// Routes: one neighbour at a time, the best that is up.
    #[default]
    Static,
    /// All neighbours, each once: a copy stays until the bundle expires or its destination's node has it.
    Flood,
    /// A bounded number of copies, half of them handed on at each meeting; the node with the last one meets the destination's node (binary spray and wait).
    SprayAndWait,
    /// Neighbours that have met the destination's node more often, or nodes that have (RFC 6693).
    Prophet,
    /// All neighbours, each once; what a destination's node has is told on, and copies of it end.
    Epidemic,
    /// All neighbours, the likeliest bundles first (Burgess et al. 2006).
    MaxProp,
}

/// The nodes whose acknowledgment of a delivery ends copies of the bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgments {
    /// The destination's node, when it takes the bundle itself.
    #[default]
    None,
    /// Beside it a neighbour whose node ID is proven by TLS, and one whose own bundle it is.
    Verified,
    /// Any neighbour.
    Anyone,
}

impl Acknowledgments {
    /// The names of all values in files.
    pub const NAMES: &[&str] = &[
        Self::None.name(),
        Self::Verified.name(),
        Self::Anyone.name(),
    ];

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Verified => "verified",
            Self::Anyone => "anyone",
        }
    }

    /// The value with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut all = [Self::None, Self::Verified, Self::Anyone].into_iter();
        all.find(|it| it.name() == name)
    }
}

/// The copies of bundles that a full store deletes, so that others find room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropPolicy {
    /// None: it refuses.
    #[default]
    None,
    /// The copies that have been here longest.
    FirstIn,
    /// The copies of bundles that most neighbours were given.
    MostCopied,
    /// The copies that expire next.
    NearestExpiry,
    /// The largest.
    Largest,
    /// The copies that their router would give last.
    Last,
    /// The copies that have been here longest, those of bundles made here among them.
    FirstOfAll,
    /// The copies that their router would give last, those of bundles made here among them.
    LastOfAll,
}

impl DropPolicy {
    /// All values.
    const ALL: [Self; 8] = [
        Self::None,
        Self::FirstIn,
        Self::MostCopied,
        Self::NearestExpiry,
        Self::Largest,
        Self::Last,
        Self::FirstOfAll,
        Self::LastOfAll,
    ];

    /// The names of all values in files.
    pub const NAMES: &[&str] = &[
        Self::None.name(),
        Self::FirstIn.name(),
        Self::MostCopied.name(),
        Self::NearestExpiry.name(),
        Self::Largest.name(),
        Self::Last.name(),
        Self::FirstOfAll.name(),
        Self::LastOfAll.name(),
    ];

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FirstIn => "first-in",
            Self::MostCopied => "most-copied",
            Self::NearestExpiry => "nearest-expiry",
            Self::Largest => "largest",
            Self::Last => "last",
            Self::FirstOfAll => "first-of-all",
            Self::LastOfAll => "last-of-all",
        }
    }

    /// Whether it deletes what was made at the node, too: nobody may have that then.
    #[must_use]
    pub const fn is_of_all(self) -> bool {
        matches!(self, Self::FirstOfAll | Self::LastOfAll)
    }

    /// The value with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl RouterKind {
    /// All values.
    pub const ALL: [Self; 6] = [
        Self::Static,
        Self::Flood,
        Self::SprayAndWait,
        Self::Prophet,
        Self::Epidemic,
        Self::MaxProp,
    ];

    /// Their names, in the same order.
    pub const NAMES: &[&str] = &[
        Self::Static.name(),
        Self::Flood.name(),
        Self::SprayAndWait.name(),
        Self::Prophet.name(),
        Self::Epidemic.name(),
        Self::MaxProp.name(),
    ];

    /// The value's name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Flood => "flood",
            Self::SprayAndWait => "spray-and-wait",
            Self::Prophet => "prophet",
            Self::Epidemic => "epidemic",
            Self::MaxProp => "maxprop",
        }
    }

    /// The nodes whose acknowledgments end copies, where the configuration does not say.
    #[must_use]
    pub const fn acknowledgments(self) -> Acknowledgments {
        match self {
            Self::Static | Self::Flood => Acknowledgments::None,
            Self::SprayAndWait | Self::Prophet | Self::Epidemic | Self::MaxProp => {
                Acknowledgments::Verified
            }
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
