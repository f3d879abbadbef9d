//! Everything at random; see the next commit.
