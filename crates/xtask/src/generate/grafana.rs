//! The dashboard for Grafana: what each panel asks, and how it shows it. Where things stand is counted out.

mod rows;

use serde_json::{Value, json};

use rows::{Look, Panel, ROWS};

/// Where it lies in the chart: not among the templates, as helm would take Grafana's braces for its own.
pub const PATH: &str = "chart/address-controller/dashboards/addresses.json";

const WIDTH: u32 = 24;
const HEIGHT: u32 = 7;

/// The dashboard, as Grafana 10 and later read it.
pub fn dashboard() -> Value {
    let (mut panels, mut y) = (Vec::new(), 0);
    for row in ROWS {
        let id = panels.len() + 1;
        panels.push(json!({
            "id": id, "type": "row", "title": row.title, "collapsed": false, "panels": [],
            "gridPos": { "x": 0, "y": y, "w": WIDTH, "h": 1 },
        }));
        y += 1;
        // Numbers stand side by side, everything else in threes.
        let numbers = row.panels.iter().all(|panel| matches!(panel.look, Look::Alarm | Look::Number));
        let (abreast, height) = if numbers { (6, 4) } else { (3, HEIGHT) };
        for line in row.panels.chunks(abreast) {
            let width = WIDTH / u32::try_from(abreast).unwrap_or(1);
            for (x, panel) in (0_u32..).zip(line) {
                let at = json!({ "x": x * width, "y": y, "w": width, "h": height });
                panels.push(rendered(panel, panels.len() + 1, at));
            }
            y += height;
        }
    }
    json!({
        "uid": "address-controller",
        "title": "Address controller",
        "tags": ["address-controller", "metallb"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            variable("class", "Class", "ipam_addresses"),
            variable("pool", "Pool", "ipam_pool_addresses"),
        ]},
        "panels": panels,
    })
}

fn variable(name: &str, label: &str, metric: &str) -> Value {
    json!({
        "name": name, "label": label, "type": "query", "datasource": source(),
        "query": { "query": format!("label_values({metric}, {name})"), "refId": "A" },
        "refresh": 2, "sort": 1, "multi": true, "includeAll": true, "allValue": ".*",
        "current": { "text": "All", "value": "$__all" },
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn rendered(panel: &Panel, id: usize, at: Value) -> Value {
    let kind = match panel.look {
        Look::Alarm | Look::Number => "stat",
        Look::Lines | Look::Areas | Look::Traced => "timeseries",
        Look::Bars => "bargauge",
    };
    let once = matches!(panel.look, Look::Alarm | Look::Number | Look::Bars);
    let targets = panel.asks.iter().zip('A'..).map(|((expression, legend), id)| {
        json!({
            "refId": id.to_string(), "expr": expression, "legendFormat": legend, "datasource": source(),
            "instant": once, "range": !once, "exemplar": panel.look == Look::Traced,
        })
    });
    json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.about, "gridPos": at,
        "datasource": source(), "targets": targets.collect::<Vec<_>>(),
        "fieldConfig": { "defaults": defaults(panel), "overrides": [] },
        "options": options(panel.look),
    })
}

fn defaults(panel: &Panel) -> Value {
    let steps = |above: &[(&str, f64)]| {
        let first = json!({ "color": "green", "value": null });
        let rest = above.iter().map(|(color, from)| json!({ "color": color, "value": from }));
        json!({ "mode": "absolute", "steps": std::iter::once(first).chain(rest).collect::<Vec<_>>() })
    };
    let mut defaults = json!({ "unit": panel.unit, "min": 0 });
    match panel.look {
        Look::Alarm => defaults["thresholds"] = steps(&[("red", 1.0)]),
        Look::Bars => {
            defaults["max"] = json!(1);
            defaults["thresholds"] = steps(&[("orange", 0.75), ("red", 0.9)]);
        }
        Look::Areas => {
            defaults["custom"] = json!({ "fillOpacity": 40, "stacking": { "mode": "normal", "group": "A" } });
        }
        Look::Number | Look::Lines | Look::Traced => {}
    }
    defaults
}

fn options(look: Look) -> Value {
    match look {
        Look::Alarm => json!({ "colorMode": "background", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        Look::Number => json!({ "colorMode": "none", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        Look::Bars => json!({ "orientation": "horizontal", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        Look::Lines | Look::Areas | Look::Traced => {
            json!({ "legend": { "displayMode": "list", "placement": "bottom" }, "tooltip": { "mode": "multi" } })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_panels_stand_in_one_place() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        let mut taken = BTreeSet::new();
        for panel in panels {
            let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
            assert!(at("x") + at("w") <= u64::from(WIDTH), "{panel}");
            for x in at("x")..at("x") + at("w") {
                for y in at("y")..at("y") + at("h") {
                    assert!(taken.insert((x, y)), "{} stands on another", panel["title"]);
                }
            }
        }
    }

    #[test]
    fn every_panel_says_what_it_shows() {
        for panel in ROWS.iter().flat_map(|row| row.panels) {
            assert!(panel.about.ends_with('.') && !panel.asks.is_empty(), "{}", panel.title);
        }
    }
}
