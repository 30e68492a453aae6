//! The `CustomResourceDefinition`s, generated from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{IPAddress, IPAddressClaim, IPAddressClass};

/// The three definitions, in the order they are installed.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![IPAddressClass::crd(), IPAddress::crd(), IPAddressClaim::crd()]
}
