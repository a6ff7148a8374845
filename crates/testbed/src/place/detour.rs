//! Measurements that go over a link: a host sends them to another, which passes them on to the collector over the control network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::batch;
use super::layout::Layout;
use super::network::{CONTROL_BRIDGE, CONTROL_INTERFACE};
use crate::failure::LabError;
use crate::namespace;

/// The switch that lets a host pass on packets of others.
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// A host whose measurements go over a link, and the host that passes them on, by their positions.
pub type Detour = (usize, usize);

/// Makes the routes of detours, there and back.
///
/// # Errors
/// When the kernel refuses.
pub fn make(layout: &Layout, detours: &BTreeSet<Detour>) -> Result<(), LabError> {
    let mut routes: BTreeMap<String, String> = BTreeMap::new();
    for (from, by) in detours {
        let (Some(host), Some(gateway)) = (layout.hosts.get(*from), layout.hosts.get(*by)) else {
            continue;
        };
        let Some((here, there)) = layout.addresses_between(*from, *by) else {
            // Programs are not told such a way.
            continue;
        };
        let collector = layout.collector_behind(gateway);
        *routes.entry(host.namespace.clone()).or_default() +=
            &format!("route replace {collector}/32 via {there} src {here}\n");
        *routes.entry(gateway.namespace.clone()).or_default() += &format!(
            "route replace {collector}/32 via {} dev {CONTROL_INTERFACE}\n",
            layout.control_address()
        );
        *routes.entry(layout.control_namespace()).or_default() += &format!(
            "address replace {collector}/32 dev {CONTROL_BRIDGE}\nroute replace {here}/32 via {}\n",
            gateway.control
        );
        namespace::within(&gateway.namespace, || fs::write(FORWARDING, "1")).map_err(|error| {
            LabError::io(format!("'{}' cannot pass on packets", gateway.name), &error)
        })?;
    }
    let mut routes = routes.into_iter();
    routes.try_for_each(|(namespace, lines)| batch::ip(&lines, Some(&namespace)))
}
