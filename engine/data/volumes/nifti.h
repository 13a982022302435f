/* SPDX-License-Identifier: Apache-2.0
 *
 * The NIfTI-1 and NIfTI-2 formats of medical volumes, in one file (.nii) or in a pair of files (.hdr with
 * the header, .img with the voxels). Each file may be packed with gzip (.nii.gz). Reads headers strictly,
 * and writes whole files. array_file.h reads the voxels. */
#ifndef ENGINE_DATA_VOLUMES_NIFTI_H
#define ENGINE_DATA_VOLUMES_NIFTI_H

#include "engine/data/array_file.h"

#define CLT_NIFTI_DIMS 7
#define CLT_NIFTI1_HEADER 348
#define CLT_NIFTI2_HEADER 540

typedef struct clt_nifti {
    int version; /* 1 or 2 */
    bool big_endian;
    int ndim;
    int64_t dim[CLT_NIFTI_DIMS]; /* x, y, z, time ...; x varies fastest in the file */
    clt_element element;
    /* value = stored number * slope + inter; 1 and 0 if the header gives no scaling (slope 0 or NaN) */
    double slope, inter;
    bool pair;                         /* the voxels are in a separate file, NAME.img */
    uint64_t offset;                   /* offset of the first voxel in the (unpacked) file with the voxels */
    uint8_t header[CLT_NIFTI2_HEADER]; /* the file's header, 348 or 540 bytes */
} clt_nifti;

/* Reads a header from the first `size` bytes of a file; 540 bytes are enough. CLT_EDATA, with path,
 * field and value: not a NIfTI file, a damaged header, or voxels that are not real numbers. */
clt_status clt_nifti_parse(const void *bytes, uint64_t size, const char *path, clt_nifti *out);

/* Reads only the header of a file. */
clt_status clt_nifti_read_header(const char *path, clt_nifti *out);

/* The number at byte `at` of the header: a real number, stored as f32 (NIfTI-1) or f64 (NIfTI-2), or an
 * integer of `bytes` bytes. */
double clt_nifti_real(const clt_nifti *header, int at);
int64_t clt_nifti_whole(const clt_nifti *header, int at, int bytes);

/* *bytes: number of bytes up to the last voxel in the (unpacked) file with the voxels. CLT_EDATA: more than
 * 2^48 bytes. */
clt_status clt_nifti_bytes(const clt_nifti *header, const char *path, uint64_t *bytes);

/* Describes the voxels of an opened file to array_file.h: one sample, read as f32 with slope and intercept
 * applied, whose shape is the first `ndim` dimensions in the order of memory (for 3: z, y, x). The other
 * dimensions must be 1. */
clt_status clt_nifti_describe(const clt_nifti *header, int ndim, clt_array_file *file);

/* A volume to write. */
typedef struct clt_nifti_image {
    clt_element element;
    int ndim;
    int64_t dim[CLT_NIFTI_DIMS];   /* x, y, z ... */
    const void *data;              /* in the byte order of this machine; the first dimension varies fastest */
    double slope, inter;           /* value = stored number * slope + inter; slope 0 means 1 */
    float spacing[CLT_NIFTI_DIMS]; /* millimetres between voxels along each dimension; 0 means 1 */
    /* Header that gives spacing, orientation, units, byte order and version; NULL: the file gets `spacing`,
     * no rotation, NIfTI-1 and little-endian. */
    const clt_nifti *like;
} clt_nifti_image;

/* Writes a file atomically (see clt_file_write), packed if its name ends in ".gz". CLT_EUSAGE: the name ends
 * neither in ".nii" nor in ".nii.gz". CLT_EUNSUPPORTED: the format cannot hold the volume. */
clt_status clt_nifti_write(const char *path, const clt_nifti_image *image);

/* True if the path ends in ".nii" or ".nii.gz". */
bool clt_nifti_named(const char *path);

#endif
