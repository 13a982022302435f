/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a reduction: the check, its device, and the folder to write. */
#ifndef ENGINE_VERIFY_REDUCE_REDUCE_OPTIONS_H
#define ENGINE_VERIFY_REDUCE_REDUCE_OPTIONS_H

#include "engine/verify/verify.h"

typedef struct clt_reduce_options {
    clt_verify_options check; /* pattern: the name of the check, "softmax.odd[row]/correct" */
    double limit;             /* seconds that a trial may take */
    const char *folder;       /* to be made */
    const char *repeat;       /* the command that repeats the check */
} clt_reduce_options;

#endif
