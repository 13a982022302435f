/* SPDX-License-Identifier: Apache-2.0
 *
 * The profile: what each command of a plan took on the device, longest first. Knows the executor's times and
 * the plan's byte and operation counts; measures nothing itself. */
#ifndef ENGINE_REPORT_PROFILE_H
#define ENGINE_REPORT_PROFILE_H

#include "engine/base/json.h"
#include "engine/plan/realize.h"

/* Times that ocl_exec_collect added up over `steps` steps, as a table. */
clt_status clt_profile_text(const clt_realized *realized, int64_t steps, clt_str *out);
/* The same as an array of objects {phase, command, variant, kernel, ms, calls, gb_per_s, gflops}, per step.
 */
clt_status clt_profile_json(const clt_realized *realized, int64_t steps, clt_json_writer *writer);

#endif
