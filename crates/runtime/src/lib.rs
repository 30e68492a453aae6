//! The only place that touches the world: feeds, queue, apply, lease, telemetry, admin.
