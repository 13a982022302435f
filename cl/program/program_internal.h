/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared declarations of the files that build, keep and load programs. No file outside cl/ includes this
 * header. */
#ifndef CL_PROGRAM_PROGRAM_INTERNAL_H
#define CL_PROGRAM_PROGRAM_INTERNAL_H

#include "cl/device/internal.h"
#include "cl/program/programs.h"

struct ocl_program_request; /* builders.h */

struct ocl_program {
    char *family, *options, *log;
    cl_program program;
    double build_seconds;
    bool from_cache; /* loaded as a binary from our cache */
};

/* program.c */
void ocl_program_destroy(ocl_program *program);
CLT_SCOPED_POINTER(ocl_program, ocl_program_destroy)
/* Releases every program of the device; none of their kernels may be in use. */
void ocl_programs_forget(ocl_device *device);
/* Like ocl_program_get, but does not save the source if the build fails: for probes, where a failed build is
 * a normal answer. */
clt_status ocl_program_try(ocl_device *device, const char *family, const char *options, ocl_program **out);
/* The log of the last build, "" if there is none; free() it. */
clt_status ocl_program_fetch_log(cl_program program, cl_device_id id, char **out);
bool ocl_program_cached(ocl_device *device, const char *family, const char *options);
/* Whether the program is in a cache, so that building it will be quick, and the hash for its turn
 * (ocl_binary_known). */
bool ocl_program_known(const ocl_device *device, const char *family, const char *options, uint64_t *hash);

/* retarget.c: replaces a built program, and its log, by the same program for sm_90a. CLT_EBUILD,
 * CLT_EUNSUPPORTED: the driver or its compiler does not support that. */
clt_status ocl_program_retarget(ocl_device *device, ocl_program *program, const char *options);
/* binary.c: the driver's binary of a program built for one device; free() it. */
clt_status ocl_program_binary(cl_program program, char **out, size_t *size);

/* program_build.c */
/* Number of programs that this process builds at the same time. */
int ocl_build_threads(const ocl_device *device, size_t programs);
/* Builds the programs that the device does not have yet, several at a time if the driver's compiler allows
 * it. The progress function is called on this thread only. On failure *failed is the index of the first
 * program that does not build; the message is about this program. */
clt_status ocl_programs_build(ocl_device *device, const struct ocl_program_request *requests, size_t count,
                              ocl_progress_fn progress, void *progress_context, size_t *failed);

/* program_gather.c: building the programs of later work together. After ocl_programs_gather the device only
 * records requested programs, and each request fails with CLT_EUNSUPPORTED. ocl_programs_build_gathered ends
 * this state and builds the recorded programs. It does not fail if the compiler refuses a program, because
 * the program's user will get that failure again; it returns other failures (no memory, a lost device). */
clt_status ocl_programs_gather(ocl_device *device);
clt_status ocl_programs_build_gathered(ocl_device *device, ocl_progress_fn progress, void *progress_context);
/* Records programs; always fails. */
clt_status ocl_programs_record(ocl_device *device, const struct ocl_program_request *requests, size_t count);
struct ocl_gathered;
void ocl_gathered_free(struct ocl_gathered *gathered);

/* program_cache.c: binaries of built programs on disk, one file each, for drivers that compile slowly and
 * have no cache. Nothing here makes a build fail: if a file cannot be read or written, the program is built
 * from source. */
void ocl_binary_cache_open(ocl_device *device);
void ocl_binary_cache_close(ocl_device *device);
/* Whether programs that are built now are stored, as a binary or as a mark. */
bool ocl_binary_cache_keeps(const ocl_device *device);
/* Whether there is a binary of the program, or a mark that it was built before and so is in the driver's own
 * cache. *hash names the program on this device (build_turn.h). */
bool ocl_binary_known(const ocl_device *device, const char *source, const char *full_options, uint64_t *hash);
/* The file of turns in the folder of stored programs (build_turn.h); below 0: nothing is stored. */
int ocl_binary_turns(const ocl_device *device);
/* From now on this process takes no turns: a child builds in its parent's turns. */
void ocl_binary_turns_close(ocl_device *device);
/* The program built from its cached binary, or NULL. May be called from any thread. */
cl_program ocl_binary_load(ocl_device *device, const char *source, const char *full_options);
void ocl_binary_store(ocl_device *device, const char *source, const char *full_options, cl_program program);
/* Builds a program from a binary. *out is the program if it could be created, even if its build failed, else
 * NULL. */
cl_int ocl_build_binary(const ocl_device *device, const unsigned char *binary, size_t bytes,
                        const char *options, cl_program *out);
/* Removes the least recently used files until the others take at most `limit` bytes, and temporary files of
 * dead writers. */
void ocl_binary_cache_trim(const char *folder, uint64_t limit);

#endif
