//! Objects from the API server's text, as the runtime takes them in.

use api::{IPAddress, IPAddressClaim, IPAddressClass};
use k8s_openapi::api::core::v1;
use kube::core::DynamicObject;
use plan::{Kind, Object};
use serde::Deserialize;
use serde_json::Error;

#[derive(Deserialize)]
struct Named {
    kind: String,
}

/// An object of the kind that the text itself names; none if nobody watches such.
pub fn object(text: &str) -> Option<Object> {
    let Named { kind } = serde_json::from_str(text).ok()?;
    let kinds =
        [Kind::Class, Kind::Address, Kind::Claim, Kind::Service, Kind::Namespace, Kind::Event, Kind::Pool];
    decode(kinds.into_iter().find(|known| known.as_str() == kind)?, text).ok()
}

/// An object of that kind.
pub fn decode(kind: Kind, text: &str) -> Result<Object, Error> {
    Ok(match kind {
        Kind::Class => serde_json::from_str::<IPAddressClass>(text)?.into(),
        Kind::Address => serde_json::from_str::<IPAddress>(text)?.into(),
        Kind::Claim => serde_json::from_str::<IPAddressClaim>(text)?.into(),
        Kind::Service => serde_json::from_str::<v1::Service>(text)?.into(),
        Kind::Namespace => serde_json::from_str::<v1::Namespace>(text)?.into(),
        Kind::Event => serde_json::from_str::<v1::Event>(text)?.into(),
        Kind::Pool => serde_json::from_str::<DynamicObject>(text)?.into(),
    })
}

/// The text of an object.
pub fn encode(object: &Object) -> Result<String, Error> {
    match object {
        Object::Class(object) => serde_json::to_string(&**object),
        Object::Address(object) => serde_json::to_string(&**object),
        Object::Claim(object) => serde_json::to_string(&**object),
        Object::Service(object) => serde_json::to_string(&**object),
        Object::Namespace(object) => serde_json::to_string(&**object),
        Object::Event(object) => serde_json::to_string(&**object),
        Object::Pool(object) => serde_json::to_string(&**object),
    }
}
