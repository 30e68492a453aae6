//! Objects and changes, as the watches and the API server's answers bring them.

use std::sync::Arc;
use std::{fmt, iter};

use api::{AddressName, ClaimKey, IPAddress, IPAddressClaim, IPAddressClass, ServiceKey};
use k8s_openapi::api::core::v1;
use kube::core::{DynamicObject, ObjectMeta};
use serde::{Serialize, Serializer};

/// The kinds that the two controllers read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `IPAddressClass`.
    Class,
    /// `IPAddress`.
    Address,
    /// `IPAddressClaim`.
    Claim,
    /// A core `Service`.
    Service,
    /// A core `Namespace`.
    Namespace,
    /// A core `Event` of MetalLB about a placeholder.
    Event,
    /// A MetalLB `IPAddressPool`.
    Pool,
}

impl Kind {
    /// The kind as it stands in `kind:` of an object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Class => "IPAddressClass",
            Self::Address => "IPAddress",
            Self::Claim => "IPAddressClaim",
            Self::Service => "Service",
            Self::Namespace => "Namespace",
            Self::Event => "Event",
            Self::Pool => "IPAddressPool",
        }
    }

    /// The text of `apiVersion:` of an object of this kind.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Class | Self::Address | Self::Claim => "local.sdn.cozystack.io/v1alpha1",
            Self::Service | Self::Namespace | Self::Event => "v1",
            Self::Pool => "metallb.io/v1beta1",
        }
    }

    /// The plural name in URLs and RBAC rules.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Class => "ipaddressclasses",
            Self::Address => "ipaddresses",
            Self::Claim => "ipaddressclaims",
            Self::Service => "services",
            Self::Namespace => "namespaces",
            Self::Event => "events",
            Self::Pool => "ipaddresspools",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of one object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ref {
    /// The object's kind.
    pub kind: Kind,
    /// The object's namespace; none for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: String,
}

impl Ref {
    /// A class by name.
    pub fn class(name: &str) -> Self {
        Self { kind: Kind::Class, namespace: None, name: name.to_owned() }
    }

    /// An address by name.
    pub fn address(name: &AddressName) -> Self {
        Self { kind: Kind::Address, namespace: None, name: name.as_str().to_owned() }
    }

    /// A claim by key.
    pub fn claim(key: &ClaimKey) -> Self {
        Self { kind: Kind::Claim, namespace: Some(key.namespace.clone()), name: key.name.clone() }
    }

    /// A Service by key.
    pub fn service(key: &ServiceKey) -> Self {
        Self { kind: Kind::Service, namespace: Some(key.namespace.clone()), name: key.name.clone() }
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// One object, held once and shared.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A class.
    Class(Arc<IPAddressClass>),
    /// An address.
    Address(Arc<IPAddress>),
    /// A claim.
    Claim(Arc<IPAddressClaim>),
    /// A Service.
    Service(Arc<v1::Service>),
    /// A namespace.
    Namespace(Arc<v1::Namespace>),
    /// An event.
    Event(Arc<v1::Event>),
    /// A pool.
    Pool(Arc<DynamicObject>),
}

impl Object {
    /// The object's kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Class(_) => Kind::Class,
            Self::Address(_) => Kind::Address,
            Self::Claim(_) => Kind::Claim,
            Self::Service(_) => Kind::Service,
            Self::Namespace(_) => Kind::Namespace,
            Self::Event(_) => Kind::Event,
            Self::Pool(_) => Kind::Pool,
        }
    }

    /// The object's metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Class(object) => &object.metadata,
            Self::Address(object) => &object.metadata,
            Self::Claim(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::Namespace(object) => &object.metadata,
            Self::Event(object) => &object.metadata,
            Self::Pool(object) => &object.metadata,
        }
    }

    /// The object's name in the cluster.
    pub fn reference(&self) -> Ref {
        let meta = self.meta();
        Ref {
            kind: self.kind(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl Serialize for Object {
    /// As the object of its kind.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Class(object) => object.serialize(serializer),
            Self::Address(object) => object.serialize(serializer),
            Self::Claim(object) => object.serialize(serializer),
            Self::Service(object) => object.serialize(serializer),
            Self::Namespace(object) => object.serialize(serializer),
            Self::Event(object) => object.serialize(serializer),
            Self::Pool(object) => object.serialize(serializer),
        }
    }
}

macro_rules! from_arc {
    ($($variant:ident($ty:ty)),* $(,)?) => {$(
        impl From<$ty> for Object {
            fn from(object: $ty) -> Self {
                Self::$variant(Arc::new(object))
            }
        }
    )*};
}
from_arc!(
    Class(IPAddressClass),
    Address(IPAddress),
    Claim(IPAddressClaim),
    Service(v1::Service),
    Namespace(v1::Namespace),
    Event(v1::Event),
    Pool(DynamicObject),
);

/// What a watch, or the answer to one of our own writes, tells.
#[derive(Clone, Debug)]
pub enum Change {
    /// The object is there in this form.
    Applied(Object),
    /// The watch says that the object is gone.
    Deleted(Object),
    /// The answer to our own delete: the object of this uid is gone. Watch events about it that are still
    /// under way are ignored.
    Gone {
        /// The object deleted.
        reference: Ref,
        /// Its uid.
        uid: String,
    },
    /// The answer to our own create: the server will not have the object, which is nowhere.
    Refused {
        /// The object.
        object: Object,
        /// The server's words.
        words: String,
    },
    /// A complete list of one kind begins: a watch began, or began anew. [`InList`](Self::InList) tells of each object in
    /// it, until [`Listed`](Self::Listed). Answers to our own writes may come between. A list that begins before another
    /// is over takes its place.
    ListBegins(Kind),
    /// The list that began last has this object.
    InList(Object),
    /// The list that began last is over: what is not in it is gone.
    Listed(Kind),
}

impl Change {
    /// The kind of the objects it is about.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Applied(object)
            | Self::InList(object)
            | Self::Deleted(object)
            | Self::Refused { object, .. } => object.kind(),
            Self::Gone { reference, .. } => reference.kind,
            Self::ListBegins(kind) | Self::Listed(kind) => *kind,
        }
    }

    /// The changes that a complete list of a kind is told by.
    pub fn list(kind: Kind, objects: impl IntoIterator<Item = Object>) -> impl Iterator<Item = Self> {
        let objects = objects.into_iter().map(Self::InList);
        iter::once(Self::ListBegins(kind)).chain(objects).chain(iter::once(Self::Listed(kind)))
    }
}
