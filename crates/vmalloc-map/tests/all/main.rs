//! Tests of what a program sees. The map itself is compared with a model in `testing/model`.

mod examples;
