/* SPDX-License-Identifier: Apache-2.0
 *
 * The session of the speed measurement, and timing one phase of a realised plan; shared by the files that
 * measure speed. */
#ifndef ENGINE_VERIFY_SPEED_SPEED_INTERNAL_H
#define ENGINE_VERIFY_SPEED_SPEED_INTERNAL_H

#include "engine/ops/op.h"
#include "engine/plan/realize.h"
#include "engine/verify/speed/speed.h"

typedef struct clt_speed_session {
    const clt_speed_options *options;
    ocl_device *device;
    ocl_device_desc desc;
    ocl_limits limits;
    ocl_stream *stream;
    int matched;
} clt_speed_session;

/* True if the options ask for the case. */
bool clt_speed_wants(clt_speed_session *session, const char *name);
/* The status of a case: one that does not fit into the machine's memory is reported and left out. */
clt_status clt_speed_end(const clt_speed_session *session, const char *name, clt_status status);
/* Times a phase and reports the results of the phase and of its commands. The phase must have run once
 * before. */
clt_status clt_speed_phase(const clt_speed_session *session, clt_realized *realized, clt_phase phase,
                           const char *name);

/* The share for one round: bytes that must move in `ns` nanoseconds, as a fraction of the mean bandwidth of
 * the streams before and after it. */
double clt_speed_share(double bytes, double ns, double gbs_before, double gbs_after);
/* True if memory limits a command: its arrays are far larger than the caches, and its arithmetic takes less
 * time than moving the bytes. */
bool clt_speed_streams(const ocl_device_desc *desc, const ocl_limits *limits, double bytes, double flops);

/* speed_update.c: the UPDATE phase of every optimizer. */
clt_status clt_speed_updates(clt_speed_session *session);

#endif
