//! `spec.parameters` of a class (contract §8).

use serde_json::{Map, Value};
use thiserror::Error;

/// Why the parameters of a class are refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParametersError {
    /// The old form, in which the driver rendered a pool.
    #[error(
        "spec.parameters.addresses is no longer served; name an existing IPAddressPool in spec.parameters.pool \
         (metallb-iad migrate does this for a class of the old form)"
    )]
    Addresses,
    /// A field nobody knows.
    #[error("spec.parameters.{0} is not known; the only field is pool")]
    Unknown(String),
    /// No pool.
    #[error("spec.parameters.pool is missing; name the IPAddressPool to draw addresses from")]
    NoPool,
    /// The pool's name is not a text.
    #[error("spec.parameters.pool must be the name of an IPAddressPool, not {0}")]
    NotAName(String),
}

/// Reads `spec.parameters`: `{pool: <IPAddressPool name>}`.
///
/// # Errors
/// When anything else is there. `addresses` is refused by name.
pub fn pool_name(parameters: Option<&Map<String, Value>>) -> Result<String, ParametersError> {
    let Some(parameters) = parameters else { return Err(ParametersError::NoPool) };
    if parameters.contains_key("addresses") {
        return Err(ParametersError::Addresses);
    }
    if let Some(field) = parameters.keys().find(|field| *field != "pool") {
        return Err(ParametersError::Unknown(field.clone()));
    }
    match parameters.get("pool") {
        Some(Value::String(name)) if !name.is_empty() => Ok(name.clone()),
        None | Some(Value::String(_)) => Err(ParametersError::NoPool),
        Some(other) => Err(ParametersError::NotAName(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"pool": "public"}), Ok("public"))]
    #[case(json!({}), Err("pool is missing"))]
    #[case(json!({"pool": ""}), Err("pool is missing"))]
    #[case(json!({"pool": 7}), Err("not 7"))]
    #[case(json!({"addresses": ["203.0.113.0/24"]}), Err("addresses is no longer served"))]
    #[case(json!({"addresses": [], "pool": "public"}), Err("addresses is no longer served"))]
    #[case(json!({"pool": "public", "range": "x"}), Err("range is not known"))]
    fn c8_parameters(#[case] parameters: Value, #[case] expected: Result<&str, &str>) {
        let read = pool_name(parameters.as_object());
        match expected {
            Ok(pool) => assert_eq!(read.unwrap(), pool),
            Err(words) => assert!(read.unwrap_err().to_string().contains(words)),
        }
    }

    #[test]
    fn c8_no_parameters_at_all() {
        assert_eq!(pool_name(None), Err(ParametersError::NoPool));
    }
}
