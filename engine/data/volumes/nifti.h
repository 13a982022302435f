/* SPDX-License-Identifier: Apache-2.0
 *
 * The NIfTI-1 and NIfTI-2 formats of medical volumes, in one file (.nii) or a pair of files (.hdr with the
 * header, .img with the voxels), each perhaps packed (.nii.gz): the header is read strictly, and whole
 * files are written. It knows the header and nothing else; numbers are read by array_file.h. */
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
    int64_t dim[CLT_NIFTI_DIMS]; /* x, y, z, time ...: the first one varies fastest in the file */
    clt_element element;
    /* value = stored number * slope + inter; 1 and 0 where the header asks for no scaling (a slope of 0 or
     * NaN) */
    double slope, inter;
    bool pair;                         /* the numbers are in a file of their own, NAME.img */
    uint64_t offset;                   /* of the first number in the (unpacked) file that holds them */
    uint8_t header[CLT_NIFTI2_HEADER]; /* as it is in the file: 348 or 540 bytes */
} clt_nifti;

/* Reads a header from the beginning of a file, of which `size` bytes are given: those of the header are
 * enough. CLT_EDATA, with the path, the field and its value, for what is no NIfTI file, a damaged header, a
 * pair of .hdr and .img, and types of numbers that are no real numbers. */
clt_status clt_nifti_parse(const void *bytes, uint64_t size, const char *path, clt_nifti *out);

/* The same for a file, of which no more than the header is read. */
clt_status clt_nifti_read_header(const char *path, clt_nifti *out);

/* The number that begins at this byte of the header: a real one as the version stores them (f32 or f64), or a whole one of
 * so many bytes. */
double clt_nifti_real(const clt_nifti *header, int at);
int64_t clt_nifti_whole(const clt_nifti *header, int at, int bytes);

/* The bytes of the file that holds the numbers, unpacked, up to the last of them; CLT_EDATA if there are
 * more than a file can have. */
clt_status clt_nifti_bytes(const clt_nifti *header, const char *path, uint64_t *bytes);

/* Describes the numbers of an opened file to array_file.h: one sample, read as f32 with slope and intercept
 * applied, whose shape has the dimensions of the volume in the order of memory, `ndim` of them (z, y, x for
 * 3). Dimensions beyond these must be 1. */
clt_status clt_nifti_describe(const clt_nifti *header, int ndim, clt_array_file *file);

/* What clt_nifti_write writes. */
typedef struct clt_nifti_image {
    clt_element element;
    int ndim;
    int64_t dim[CLT_NIFTI_DIMS];   /* x, y, z ... */
    const void *data;              /* in the byte order of this machine, the first dimension fastest */
    double slope, inter;           /* 0: no scaling is noted in the header */
    float spacing[CLT_NIFTI_DIMS]; /* millimetres between voxels along each dimension; 0: 1 */
    /* The header whose geometry (spacing, orientation, units, byte order, version) the file has; NULL: the
     * spacing above and no rotation, NIfTI-1, little-endian. */
    const clt_nifti *like;
} clt_nifti_image;

/* Writes a file at once (see clt_file_write), packed if its name ends in ".gz". CLT_EUSAGE for a name that
 * ends neither in ".nii" nor in ".nii.gz"; CLT_EUNSUPPORTED for what the format cannot hold. */
clt_status clt_nifti_write(const char *path, const clt_nifti_image *image);

/* Whether a path ends as the names of such files do. */
bool clt_nifti_named(const char *path);

#endif
