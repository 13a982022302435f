/* SPDX-License-Identifier: Apache-2.0
 *
 * What occupies memory at the moment of a step at which most is alive, by class. From the plan alone; needs
 * no device. */
#ifndef ENGINE_REPORT_MEMORY_PEAK_H
#define ENGINE_REPORT_MEMORY_PEAK_H

#include "engine/plan/plan.h"

typedef enum clt_peak_class {
    CLT_PEAK_PARAMETERS,
    CLT_PEAK_GRADIENTS, /* of parameters */
    CLT_PEAK_OPTIMIZER,
    CLT_PEAK_STATE, /* schedule, groups, and whatever else the store holds */
    CLT_PEAK_INPUTS,
    CLT_PEAK_STAGING,     /* ring that uploads go to */
    CLT_PEAK_SAVED,       /* made by the forward pass, read by the backward pass */
    CLT_PEAK_ACTIVATIONS, /* the others */
    CLT_PEAK_ACTIVATION_GRADIENTS,
    CLT_PEAK_WORKSPACE,
    CLT_PEAK_CLASS_COUNT
} clt_peak_class;
const char *clt_peak_class_name(clt_peak_class c);

#define CLT_PEAK_TENSORS 10
typedef struct clt_peak_tensor {
    int32_t tensor;
    clt_peak_class cls;
    uint64_t bytes;
} clt_peak_tensor;

typedef struct clt_memory_peak {
    uint64_t bytes[CLT_PEAK_CLASS_COUNT], live; /* live: their sum */
    uint64_t allocated;                         /* what the plan takes for it, gaps and alignment included */
    clt_phase phase;
    const char *command; /* the first of that moment, borrowed from the plan */
    int n_tensors;
    clt_peak_tensor tensor[CLT_PEAK_TENSORS]; /* the largest of the plan's own, largest first */
} clt_memory_peak;
clt_status clt_memory_peak_find(const clt_plan *plan, clt_memory_peak *out);

clt_status clt_memory_peak_text(const clt_plan *plan, const clt_memory_peak *peak, clt_str *out);
void clt_memory_peak_json(const clt_plan *plan, const clt_memory_peak *peak, clt_json_writer *writer);

#endif
