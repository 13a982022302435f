/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the voxels of a NIfTI file lie in the body: the distances between them, and the directions of the file's
 * axes. It knows the header alone. */
#ifndef ENGINE_DATA_NIFTI_SPACE_H
#define ENGINE_DATA_NIFTI_SPACE_H

#include "engine/data/nifti.h"

/* The directions in which the file's axes x, y and z go, a letter for each: R right, L left, A anterior (the front), P
 * posterior, S superior (the head), I inferior. "RAS": x grows to the right, y to the front, z towards the head. */
#define CLT_AXES 4

typedef struct clt_nifti_space {
    double spacing[3];   /* millimetres between voxels along x, y, z (pixdim); 0: the header does not say */
    char axes[CLT_AXES]; /* "": the header does not say (neither sform nor qform) */
} clt_nifti_space;

/* Axes that are oblique get the letter of the direction that is nearest. */
void clt_nifti_space_of(const clt_nifti *header, clt_nifti_space *out);

/* The direction, 0 right or left, 1 front or back, 2 head or feet, of a letter; -1 for another one. *up: it is R, A or S. */
int clt_axis_of(char letter, bool *up);
/* Whether a text has three letters, one for each direction. */
bool clt_axes_are(const char *text);

#endif
