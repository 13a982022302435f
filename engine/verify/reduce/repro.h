/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder with a program that repeats captured commands by OpenCL and libc alone: kernel.cl (kernel2.cl ...
 * for more sources), options.txt, repro.c, and inputs.bin if the data is too much for a source file. */
#ifndef ENGINE_VERIFY_REDUCE_REPRO_H
#define ENGINE_VERIFY_REDUCE_REPRO_H

#include "engine/verify/reduce/capture.h"

typedef struct clt_repro_about {
    const char *check;             /* name of the check */
    const char *device, *platform; /* names, by which the program finds the device */
    bool refused; /* the driver refuses a call, which is the fault that the program must show */
} clt_repro_about;

/* Writes the folder, which exists, from a sliced capture. CLT_ESTORAGE, CLT_ENOMEM. */
clt_status clt_repro_write(const clt_capture *capture, const clt_repro_about *about, const char *folder);

/* The fixed parts of programs (repro_text.c), in the order in which a program contains them. */
extern const char clt_repro_begin[];    /* opening the device, building, launching */
extern const char clt_repro_embedded[]; /* buffers from words of the source */
extern const char clt_repro_loaded[];   /* buffers and expected values from inputs.bin */
extern const char clt_repro_half[];     /* f16 as a double */
extern const char clt_repro_bfloat[];   /* bf16 as a double */
extern const char clt_repro_compare[];  /* the comparison */

#endif
