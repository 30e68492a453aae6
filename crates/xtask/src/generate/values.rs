//! The table of values in a chart's README: the defaults are those of values.yaml, the words those of the schema.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use super::{CHARTS, Generated};

const BEGIN: &str = "<!-- values: made by `cargo xtask gen` -->\n";
const END: &str = "<!-- end of values -->\n";

/// The READMEs of the charts, with their tables as they are to be.
pub fn readmes(root: &Path) -> anyhow::Result<Vec<Generated>> {
    CHARTS.iter().map(|chart| readme(root, chart)).collect()
}

fn readme(root: &Path, chart: &str) -> anyhow::Result<Generated> {
    let folder = Path::new("chart").join(chart);
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(root.join(&path)).with_context(|| format!("reading {}", path.display()))
    };
    let values: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(&read("values.yaml")?).with_context(|| format!("values.yaml of {chart}"))?;
    let schema: Value = serde_json::from_str(&read("values.schema.json")?)
        .with_context(|| format!("values.schema.json of {chart}"))?;
    let table = table(&values, &schema).with_context(|| format!("the values of {chart}"))?;
    let text = spliced(&read("README.md")?, &table).with_context(|| {
        format!("README.md of {chart} has no place for its values: {BEGIN:?} and {END:?}")
    })?;
    Ok(Generated { path: folder.join("README.md"), text })
}

/// A text with another table between its marks.
fn spliced(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

fn table(values: &serde_yaml_ng::Value, schema: &Value) -> anyhow::Result<String> {
    let mut table = "| value | default | |\n|---|---|---|\n".to_owned();
    rows(&mut table, "", values, schema)?;
    Ok(table)
}

/// One row for each value that the schema does not take apart any further.
fn rows(table: &mut String, path: &str, values: &serde_yaml_ng::Value, schema: &Value) -> anyhow::Result<()> {
    let (Some(fields), Some(known)) = (values.as_mapping(), schema["properties"].as_object()) else {
        return row(table, path, values, schema);
    };
    if fields.is_empty() {
        return row(table, path, values, schema);
    }
    for (name, value) in fields {
        let name = name.as_str().context("a value's name is no text")?;
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let Some(schema) = known.get(name) else {
            bail!("{path} of values.yaml is not in values.schema.json");
        };
        rows(table, &path, value, schema)?;
    }
    Ok(())
}

fn row(table: &mut String, path: &str, value: &serde_yaml_ng::Value, schema: &Value) -> anyhow::Result<()> {
    let Some(words) = schema["description"].as_str() else {
        bail!("{path} has no description in values.schema.json");
    };
    let empty = Value::String(String::new());
    let default = serde_json::to_value(value).with_context(|| format!("the default of {path}"))?;
    let default = match default {
        default if default == empty => String::new(),
        default => format!("`{}`", shown(&default)),
    };
    writeln!(table, "| `{path}` | {default} | {} |", words.replace('|', "\\|"))?;
    Ok(())
}

/// A value as one would write it in YAML, on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) if !text.contains(['"', ',', '{', '[']) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => format!("{{{}}}", pairs(fields).join(", ")),
        other => other.to_string(),
    }
}

fn pairs(fields: &Map<String, Value>) -> Vec<String> {
    fields.iter().map(|(name, value)| format!("{name}: {}", shown(value))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(values: &str, schema: &Value) -> anyhow::Result<String> {
        table(&serde_yaml_ng::from_str(values).unwrap(), schema)
    }

    #[test]
    fn a_row_for_each_value_in_the_order_of_the_file() {
        let schema = json!({ "properties": {
            "b": { "properties": { "x": { "description": "An x." }, "y": { "description": "A | y." } } },
            "a": { "description": "Lists." },
            "c": { "description": "Anything." },
        } });
        let said = made("b: {x: '', y: {cpu: 10m}}\na: [{name: n}, 2]\nc: {}\n", &schema).unwrap();
        let rows: Vec<_> = said.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| `b.x` |  | An x. |",
                "| `b.y` | `{cpu: 10m}` | A \\| y. |",
                "| `a` | `[{name: n}, 2]` | Lists. |",
                "| `c` | `{}` | Anything. |",
            ]
        );
    }

    #[test]
    fn what_the_schema_does_not_know_or_describe_is_named() {
        let schema = json!({ "properties": { "a": { "properties": { "b": {} } } } });
        let said = |values| made(values, &schema).unwrap_err().to_string();
        assert!(said("a: {c: 1}").contains("a.c of values.yaml is not in"));
        assert!(said("a: {b: 1}").contains("a.b has no description"));
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = format!("before\n{BEGIN}old\n{END}after\n");
        assert_eq!(spliced(&text, "new\n").unwrap(), format!("before\n{BEGIN}new\n{END}after\n"));
        assert!(spliced("no marks", "new").is_none());
    }
}
