/* SPDX-License-Identifier: Apache-2.0
 *
 * Times that several processes have measured, and the rule by which the times of two runs are compared. */
#ifndef CLI_VERIFY_VERIFY_SPEED_H
#define CLI_VERIFY_VERIFY_SPEED_H

#include "engine/json/json.h"
#include "engine/verify/verify.h"

/* Numbers of processes that measure each check of mode perf. */
enum {
    VERIFY_PROCESSES = 5,       /* processes of a run that is compared with a baseline */
    VERIFY_RECORDED = 10,       /* processes of any other run, which may become a baseline */
    VERIFY_MOST_PROCESSES = 20, /* processes for checks that seem to be slower */
};

/* The times of a command or phase: one value for each process, as in clt_verify_speed. */
typedef struct verify_speed {
    char what[80];
    int n;
    double ns[VERIFY_MOST_PROCESSES], bytes[VERIFY_MOST_PROCESSES], flops[VERIFY_MOST_PROCESSES];
} verify_speed;

/* Adds the measurements of one process. *speeds grows by commands that it does not contain yet; the caller
 * frees it. */
clt_status verify_speeds_add(verify_speed **speeds, int *count, const clt_verify_speed *measured, int n);
/* verify_speeds_json writes the speeds as the member "speeds" of an object; verify_speeds_read reads that
 * member. *count is 0 if there is none. False: the member has another form. */
void verify_speeds_json(clt_json_writer *w, const verify_speed *speeds, int count);
bool verify_speeds_read(const clt_json *value, verify_speed **speeds, int *count);

typedef enum verify_pace_kind {
    VERIFY_PACE_SAME,
    VERIFY_PACE_SLOWER,
    VERIFY_PACE_FASTER,
    VERIFY_PACE_UNSURE /* times vary so much that a time longer by 10 % would not be noticed */
} verify_pace_kind;

typedef struct verify_pace {
    verify_pace_kind kind;
    double ratio; /* ratio of this run's times to the baseline's */
    double noise; /* relative standard error of the ratio */
} verify_pace;

/* The rule by which times are compared. Each time is seen in three ways: by itself, relative to the speed of
 * memory, and relative to the speed of arithmetic. In each way the medians over processes are compared;
 * their noise follows from the median distance of the logarithms to their median, the larger one of the two
 * runs. The way with the least noise gives the ratio. The result is "slower" if the ratio exceeds 1.05 and 1
 * plus five times the noise, and if neither of the other ways contradicts. A way contradicts if its ratio is
 * below 1.05 by more than twice its noise: a slower machine lengthens the times, but not relative to memory
 * or arithmetic. "Faster" is the reverse. */
verify_pace verify_pace_of(const verify_speed *then, const verify_speed *now);
/* True if one of the times seems to be slower, so that more processes should measure it: the ratio exceeds
 * 1.05, whatever the noise, and no other way contradicts. */
bool verify_seems_slower(const verify_speed *then, int n_then, const verify_speed *now, int n_now);
/* The time that has grown by the largest ratio; NULL: none has grown. Adds the number of times that vary too
 * much to *unsure. */
const verify_speed *verify_slowest(const verify_speed *then, int n_then, const verify_speed *now, int n_now,
                                   verify_pace *pace, int *unsure);
/* True if at least one of the times is faster. */
bool verify_has_faster(const verify_speed *then, int n_then, const verify_speed *now, int n_now);

#endif
