//! The `OpenAPI` file says what the answers are: every answer is held against it.

use serde_json::Value;

use crate::invented::{large, small};
use crate::rig::{PAGES, Rig};

async fn document(rig: &Rig) -> Value {
    let answer = rig.get("/openapi.json").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, "application/json"));
    answer.json()
}

/// The path of the document that a page is of.
fn template(path: &str) -> String {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["claims", _, _] => "/claims/{namespace}/{name}".to_owned(),
        ["ip", _] => "/ip/{ip}".to_owned(),
        [list, _] => format!("/{list}/{{name}}"),
        _ => path.to_owned(),
    }
}

#[tokio::test]
async fn every_answer_is_as_the_document_says() {
    let rig = Rig::with(
        small(),
        &["--trace-url-template=https://traces.example/{trace_id}"],
        dashboard::Scope::All,
    );
    let document = document(&rig).await;
    let mut used = std::collections::BTreeSet::new();
    let queries = PAGES.iter().map(|path| (*path, "")).chain([("/addresses", "?gaps=1")]);
    for (path, query) in queries {
        let name = format!("{}.json", template(path));
        let schema = schema(&document, path);
        assert!(schema.is_object(), "{name} is not in the document");
        assert!(document["paths"][format!("{}.csv", template(path))].is_object(), "{name}");
        let answer = rig.get(&format!("{path}.json{query}")).await.json();
        let wrong = check(&document, schema, &answer, path);
        assert!(wrong.is_empty(), "{wrong:#?}");
        used.insert(name);
    }
    let all =
        document["paths"].as_object().unwrap().keys().filter(|path| path.strip_suffix(".json").is_some());
    assert_eq!(all.count(), used.len(), "{used:?}");
    // Of many: the same document.
    let many = Rig::of(large(60));
    let answer = many.get("/overview.json").await.json();
    assert_eq!(check(&document, schema(&document, "/overview"), &answer, "/overview"), Vec::<String>::new());
}

/// What is not a tenant's is left out, and what is left is still as the document says.
#[tokio::test]
async fn every_answer_to_a_tenant_is_as_the_document_says() {
    for namespace in ["tenant-a", "tenant-b", "tenant-c", "tenant-d", "tenant-e", "nobody"] {
        let rig = Rig::seen_by(small(), dashboard::Scope::only([namespace]));
        let document = document(&rig).await;
        let mut seen = 0;
        for path in PAGES {
            let answer = rig.get(&format!("{path}.json")).await;
            let operation = &document["paths"][format!("{}.json", template(path))]["get"];
            let answers = &operation["responses"][answer.status.as_str()];
            let schema = &answers["content"]["application/json"]["schema"];
            assert!(schema.is_object(), "{path} answers {} to {namespace}", answer.status);
            let wrong = check(&document, schema, &answer.json(), path);
            assert!(wrong.is_empty(), "{namespace}: {wrong:#?}");
            seen += usize::from(answer.status == 200);
        }
        // The lists, the classes and the IPs are there for everybody.
        assert!(seen >= 13, "{namespace} sees {seen}");
    }
}

/// Whatever is asked, somebody without a token may be turned away; the live updates too.
#[tokio::test]
async fn every_operation_may_ask_for_a_token() {
    let document = document(&Rig::of(small())).await;
    for (path, item) in document["paths"].as_object().unwrap() {
        let refusal = &item["get"]["responses"]["401"];
        assert!(refusal["description"].as_str().is_some_and(|words| words.contains("token")), "{path}");
        let told = refusal["content"]["application/json"]["schema"]["$ref"].as_str();
        assert_eq!(told.is_some(), path.strip_suffix(".json").is_some(), "{path}");
    }
}

/// The columns of a table are the ones that the document names, in that order.
#[tokio::test]
async fn every_table_has_the_columns_that_the_document_names() {
    let rig = Rig::of(small());
    let document = document(&rig).await;
    let mut used = std::collections::BTreeSet::new();
    for path in PAGES {
        let name = format!("{}.csv", template(path));
        let schema = &document["paths"][&name]["get"]["responses"]["200"]["content"]["text/csv"]["schema"];
        let told = schema["description"].as_str().unwrap_or_else(|| panic!("{name} is not in the document"));
        let columns = told.trim_start_matches("The columns: ").trim_end_matches('.').replace(", ", ",");
        assert_eq!(rig.page(&format!("{path}.csv")).await.lines().next(), Some(columns.as_str()), "{path}");
        used.insert(name);
    }
    let all =
        document["paths"].as_object().unwrap().keys().filter(|path| path.strip_suffix(".csv").is_some());
    assert_eq!(all.count(), used.len(), "{used:?}");
}

/// What the document says of the JSON of a page.
fn schema<'a>(document: &'a Value, path: &str) -> &'a Value {
    &document["paths"][format!("{}.json", template(path))]["get"]["responses"]["200"]["content"]["application/json"]
        ["schema"]
}

/// What a value has against a schema: types, names of fields, words.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return check(
            document,
            &document["components"]["schemas"][name.rsplit('/').next().unwrap()],
            value,
            at,
        );
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let tried: Vec<_> = choices.iter().map(|choice| check(document, choice, value, at)).collect();
        return if tried.iter().any(Vec::is_empty) { Vec::new() } else { tried.concat() };
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = match &schema["type"] {
        Value::Array(kinds) => kinds.clone(),
        one => vec![one.clone()],
    };
    let mut wrong = Vec::new();
    if !kinds.contains(&kind.into()) {
        wrong.push(format!("{at}: {kind} is none of {kinds:?}"));
    }
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        wrong.push(format!("{at}: {value} is none of {words:?}"));
    }
    for item in value.as_array().into_iter().flatten() {
        wrong.extend(check(document, &schema["items"], item, &format!("{at}[]")));
    }
    if let (Some(fields), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for (name, field) in fields {
            match known.get(name) {
                Some(schema) => wrong.extend(check(document, schema, field, &format!("{at}.{name}"))),
                None => wrong.push(format!("{at}.{name} is not in the document")),
            }
        }
        let needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        wrong.extend(
            needed.filter(|name| !fields.contains_key(*name)).map(|name| format!("{at}.{name} is missing")),
        );
    }
    wrong
}

/// Every parameter that a list knows is in the document, and every one of the document is known, with each of its words.
#[tokio::test]
async fn every_parameter_is_as_the_document_says() {
    let rig = Rig::of(small());
    let document = document(&rig).await;
    for (path, item) in document["paths"].as_object().unwrap() {
        if path.contains('{') || path == "/live" {
            continue;
        }
        let parameters = item["get"]["parameters"].as_array().unwrap();
        for parameter in parameters {
            let name = parameter["name"].as_str().unwrap();
            let words = match parameter["schema"]["enum"].as_array() {
                Some(words) => words.iter().map(|word| word.as_str().unwrap().to_owned()).collect(),
                None if name == "at" => vec!["2026-11-30T14:00:00Z".to_owned()],
                None => vec!["1".to_owned()],
            };
            for word in words {
                assert_eq!(
                    rig.get(&format!("{path}?{name}={word}")).await.status,
                    200,
                    "{path}?{name}={word}"
                );
            }
        }
        let mut told: Vec<_> =
            parameters.iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
        told.sort_unstable();
        let refusal = rig.get(&format!("{path}?no-such-parameter=1")).await.text;
        let known = refusal.trim().trim_end_matches("\"}").rsplit("known are: ").next().unwrap();
        let mut known: Vec<_> = known.split(", ").filter(|name| *name != "none").collect();
        known.sort_unstable();
        assert_eq!(told, known, "{path}");
    }
}
