/* SPDX-License-Identifier: Apache-2.0
 *
 * One file that holds one dense array of numbers, sample after sample: the code that idx, npy and raw
 * files share once their header has been read. It maps or unpacks the file, checks sizes before they are
 * used, and converts one sample at a time. It must not know any header format, nor what the numbers mean. */
#ifndef ENGINE_DATA_ARRAY_FILE_H
#define ENGINE_DATA_ARRAY_FILE_H

#include "engine/base/dtype.h"
#include "engine/base/mem.h"
#include "engine/data/fingerprint.h"
#include "engine/files/fileio.h"

/* Number formats of files: name, bytes, is float */
#define CLT_ELEMENT_MAP(X)                                                                                   \
    X(CLT_EL_U8, "u8", 1, 0)                                                                                 \
    X(CLT_EL_I8, "i8", 1, 0)                                                                                 \
    X(CLT_EL_U16, "u16", 2, 0)                                                                               \
    X(CLT_EL_I16, "i16", 2, 0)                                                                               \
    X(CLT_EL_U32, "u32", 4, 0)                                                                               \
    X(CLT_EL_I32, "i32", 4, 0)                                                                               \
    X(CLT_EL_U64, "u64", 8, 0)                                                                               \
    X(CLT_EL_I64, "i64", 8, 0)                                                                               \
    X(CLT_EL_F16, "f16", 2, 1)                                                                               \
    X(CLT_EL_F32, "f32", 4, 1)                                                                               \
    X(CLT_EL_F64, "f64", 8, 1)

typedef enum clt_element {
#define CLT_ELEMENT_ENUM(id, name, bytes, is_float) id,
    CLT_ELEMENT_MAP(CLT_ELEMENT_ENUM)
#undef CLT_ELEMENT_ENUM
} clt_element;

const char *clt_element_name(clt_element element);
size_t clt_element_bytes(clt_element element);
bool clt_element_is_float(clt_element element);

typedef struct clt_array_file {
    const char *path;    /* borrowed, for instance from the source's arena */
    clt_mapping mapping; /* the mapping of a file that is read in place */
    char *unpacked;      /* content of a gzip file; owned */
    bool partial;        /* so far only the beginning of a gzip file is unpacked */
    const uint8_t *bytes;
    uint64_t size;
    /* Set by the reader of the header: */
    uint64_t header; /* bytes before the numbers */
    clt_element element;
    bool big_endian;
    bool flags;      /* the elements are booleans, one byte each */
    clt_dtype dtype; /* type in which samples are delivered: U8, U16, I32 or F32 */
    int64_t samples;
    clt_shape shape; /* shape of one sample */
    bool normalise;  /* F32 only: deliver (v*scale - mean)/std, computed in double */
    double scale, mean, std;
    /* Set by clt_array_file_fit: */
    int64_t sample_elements;
    uint64_t sample_bytes;
} clt_array_file;

/* clt_array_file_open: maps `path`, or unpacks it if it starts with the gzip magic. `key`: the config key
 * that named it, for messages. Refuses missing and empty files and git-lfs pointers. Close it even if it
 * fails. */
clt_status clt_array_file_open(clt_array_file *file, clt_arena *arena, const char *path, const char *key);
/* Like clt_array_file_open, but `path` is not copied and must stay valid while the file is open. A gzip file
 * may unpack to at most `most` bytes (0: only memory limits it). */
clt_status clt_array_file_open_at_most(clt_array_file *file, const char *path, const char *key,
                                       uint64_t most);
void clt_array_file_close(clt_array_file *file);
CLT_SCOPED_VALUE(clt_array_file, clt_array_file_close)

/* Unpacks a gzip file to its end; for formats without a header. Without this call, only the beginning is
 * unpacked until clt_array_file_fit is called. */
clt_status clt_array_file_whole(clt_array_file *file);
/* clt_array_file_fit: takes the array's dimensions (the first one counts samples) and checks that the header
 * is followed by exactly the number of elements that they give. Products are checked for overflow. The
 * message of CLT_EDATA has the expected size and the actual one. */
clt_status clt_array_file_fit(clt_array_file *file, int ndim, const uint64_t *dims);

/* Writes one sample as file->dtype. If a number is not finite, before or after conversion, fails with
 * CLT_EDATA, whose message names file, sample and element. Safe to call from several threads. */
clt_status clt_array_file_read(const clt_array_file *file, int64_t sample, void *dst);
/* For files whose dtype is F32: writes `count` elements of a sample, from element `first` on. */
clt_status clt_array_file_read_part(const clt_array_file *file, int64_t sample, int64_t first, int64_t count,
                                    float *dst);
/* One sample as stored, in double, without scale, mean and std. Fails with CLT_EDATA if a number is not
 * finite. */
clt_status clt_array_file_numbers(const clt_array_file *file, int64_t sample, double *out);
/* Number of elements of one sample that differ from `ignore`. */
int64_t clt_array_file_count_valid(const clt_array_file *file, int64_t sample, int64_t ignore);
/* Smallest and largest number of an integer array. CLT_EDATA: a number does not fit the delivered type. */
clt_status clt_array_file_range(const clt_array_file *file, int64_t *min, int64_t *max);
/* Offset in bytes, in the unpacked file, of an element of a sample. */
uint64_t clt_array_file_offset(const clt_array_file *file, int64_t sample, int64_t element);

/* Tells a remote file that a sample will be read soon. */
void clt_array_file_want(const clt_array_file *file, int64_t sample);
/* Adds the (unpacked) content to a fingerprint. */
void clt_array_file_fingerprint(const clt_array_file *file, clt_hash64_state *state);

#endif
