/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the speed measurement share: the session, and the timing of one phase
 * of a realised plan. */
#ifndef ENGINE_VERIFY_SPEED_INTERNAL_H
#define ENGINE_VERIFY_SPEED_INTERNAL_H

#include "engine/ops/op.h"
#include "engine/plan/realize.h"
#include "engine/verify/speed.h"

typedef struct clt_speed_session {
    const clt_speed_options *options;
    ocl_device *device;
    ocl_device_desc desc;
    ocl_limits limits;
    ocl_stream *stream;
    int matched;
} clt_speed_session;

/* True when the case is wanted. */
bool clt_speed_wants(clt_speed_session *session, const char *name);
void clt_speed_refuse(const clt_speed_session *session, const char *name, const char *why);
/* Times a phase and reports it and its commands. The phase must not have run for the first time. */
clt_status clt_speed_phase(const clt_speed_session *session, clt_realized *realized, clt_phase phase,
                           const char *name);

/* What the time of one round is worth: bytes that must move in `ns`, as a share of the mean of what a stream
 * reached before and after it. */
double clt_speed_share(double bytes, double ns, double gbs_before, double gbs_after);
/* Is it memory that limits this: arrays far larger than the caches, and not more arithmetic than fits beside
 * the streams? */
bool clt_speed_streams(const ocl_device_desc *desc, const ocl_limits *limits, double bytes, double flops);

/* speed_update.c: the UPDATE phase of every optimizer. */
clt_status clt_speed_updates(clt_speed_session *session);

#endif
