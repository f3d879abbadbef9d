// Copyright (C) 2022 Alibaba Cloud. All rights reserved.
// Copyright 2022 Amazon.com, Inc. or its affiliates. All Rights Reserved.
// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause

// Changed for vmalloc: the interval tree is an area map.
mod area_map;

pub(crate) use area_map::{IntervalTree, NodeState};
