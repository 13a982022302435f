/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the speed measurement, for its test. */
#ifndef ENGINE_VERIFY_SPEED_SPEED_INTERNAL_H
#define ENGINE_VERIFY_SPEED_SPEED_INTERNAL_H

#include "engine/verify/speed/speed.h"

/* The share for one round: the bandwidth of a command whose bytes move in `ns` nanoseconds, divided by the
 * mean bandwidth of the streams before and after it. */
double clt_speed_share(double bytes, double ns, double gbs_before, double gbs_after);
/* True if memory limits a command: its arrays are far larger than the caches, and its arithmetic takes less
 * time than moving the bytes. */
bool clt_speed_streams(const ocl_device_desc *desc, const ocl_limits *limits, double bytes, double flops);

#endif
