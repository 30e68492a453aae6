//! Namespaced names as values, so that a claim's key is never taken for a Service's.

use std::fmt;

macro_rules! namespaced_key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            /// The object's namespace.
            pub namespace: String,
            /// The object's name.
            pub name: String,
        }

        impl $name {
            /// A key of its two parts.
            pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
                Self { namespace: namespace.into(), name: name.into() }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}/{}", self.namespace, self.name)
            }
        }
    };
}

namespaced_key!(
    /// Namespace and name of an `IPAddressClaim`.
    ClaimKey
);
namespaced_key!(
    /// Namespace and name of a Service.
    ServiceKey
);
