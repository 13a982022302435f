/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that build, keep and load programs share; nobody outside cl/ includes it. */
#ifndef CL_PROGRAM_INTERNAL_H
#define CL_PROGRAM_INTERNAL_H

#include "cl/command/exec.h"
#include "cl/device/internal.h"

struct ocl_program_wish; /* builders.h */

struct ocl_program {
    char *family, *options, *log;
    cl_program program;
    double build_seconds;
    bool from_cache; /* loaded as a binary from our cache */
};

/* program.c */
void ocl_program_destroy(struct ocl_program *program);
/* Releases every program of the device; no kernel of them may be in use. */
void ocl_programs_forget(ocl_device *device);
/* ocl_program_get without a saved source on failure: for probes, whose failure is an answer. */
clt_status ocl_program_try(ocl_device *device, const char *family, const char *options, ocl_program **out);
/* The log of the last build, "" if there is none; free() it. */
clt_status ocl_program_fetch_log(cl_program program, cl_device_id id, char **out);
bool ocl_program_cached(ocl_device *device, const char *family, const char *options);
/* Will building it be short? (ocl_binary_known) */
bool ocl_program_known(const ocl_device *device, const char *family, const char *options);

/* retarget.c: replaces a built program by the same one for sm_90a, and its log. CLT_EBUILD, CLT_EUNSUPPORTED:
 * the driver or its compiler do not go along. */
clt_status ocl_program_retarget(ocl_device *device, ocl_program *program, const char *options);
/* binary.c: what the driver keeps of a program that was built, for its first device; free() it. */
clt_status ocl_program_binary(cl_program program, char **out, size_t *size);

/* program_build.c */
/* Programs that are built at a time in this process. */
int ocl_build_threads(const ocl_device *device, size_t programs);
/* Builds those that the device has not got yet, several at a time where the driver's compiler allows it. The
 * progress function is called by this thread alone. On failure *failed is the index of the first of the list
 * that does not build, and the message is its. */
clt_status ocl_programs_build(ocl_device *device, const struct ocl_program_wish *wishes, size_t count,
                              ocl_progress_fn progress, void *progress_context, size_t *failed);

/* program_cache.c: binaries of built programs on disk, a file each, for drivers that compile slowly and keep
 * nothing themselves. Nothing here can fail a build: what cannot be read or written is built from source. */
void ocl_binary_cache_open(ocl_device *device);
void ocl_binary_cache_close(ocl_device *device);
/* Is what is built now kept, as a binary or as a mark? */
bool ocl_binary_cache_keeps(const ocl_device *device);
/* Is there a binary, or a mark that it was built before, so that it is in the driver's own cache? */
bool ocl_binary_known(const ocl_device *device, const char *source, const char *full_options);
/* The program, built from its kept binary, or NULL. Any thread. */
cl_program ocl_binary_load(ocl_device *device, const char *source, const char *full_options);
void ocl_binary_store(ocl_device *device, const char *source, const char *full_options, cl_program program);
/* A program from a binary; *out is NULL unless the program was created, also when it did not build. */
cl_int ocl_build_binary(const ocl_device *device, const unsigned char *binary, size_t bytes,
                        const char *options, cl_program *out);
/* Removes the files that were not used for longest until those left take `limit` bytes at most, and what
 * writers that died left behind. */
void ocl_binary_cache_trim(const char *folder, uint64_t limit);

#endif
