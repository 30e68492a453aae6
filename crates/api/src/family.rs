//! Address families.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The family of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Family {
    /// IP version 4.
    IPv4,
    /// IP version 6.
    IPv6,
}

impl Family {
    /// Both, IPv4 first.
    pub const ALL: [Self; 2] = [Self::IPv4, Self::IPv6];

    /// The text used in `spec.ipFamilies` of a Service.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
        }
    }

    /// The suffix of an allocation placeholder's name (contract §7): `v4` or `v6`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::IPv4 => "v4",
            Self::IPv6 => "v6",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The families a claim asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum ClaimFamily {
    /// One IPv4 address.
    #[default]
    IPv4,
    /// One IPv6 address.
    IPv6,
    /// One address of each family.
    Dual,
}

impl ClaimFamily {
    /// The families to meet, IPv4 first.
    pub const fn expand(self) -> &'static [Family] {
        match self {
            Self::IPv4 => &[Family::IPv4],
            Self::IPv6 => &[Family::IPv6],
            Self::Dual => &Family::ALL,
        }
    }
}
