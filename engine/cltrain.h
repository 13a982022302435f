/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain: train neural nets on any OpenCL device from C. This is the only header a program needs.
 *
 *     cltrain *net;
 *     cltrain_create(&net);
 *     cltrain_layer(net, "{\"op\": \"linear\", \"out\": 32}");      layers as in a config's model.layers
 *     cltrain_layer(net, "{\"op\": \"relu\"}");
 *     cltrain_layer(net, "{\"op\": \"linear\", \"out\": 3}");
 *     cltrain_layer(net, "{\"op\": \"cross_entropy\"}");
 *     cltrain_set(net, "train.steps", "200");                       any key of a config
 *     cltrain_data_classes(net, samples, x, 1, x_shape, labels);
 *     cltrain_train(net, on_step, NULL);
 *     cltrain_save(net, "net.safetensors");
 *     cltrain_destroy(net);
 *
 * Every function returns 0 or one of the exit codes that the README lists (2 configuration, 3 data, 4 no
 * device, ...); cltrain_error() then says what happened. Objects may be used from one thread at a time.
 *
 * Drivers crash. Before a device is used for the first time, with each driver and version of this library,
 * its drivers are listed and it is asked for its capabilities in child processes. These run the program
 * cltrain of the same version, never the program that uses the library: the one that the environment variable
 * CLTRAIN_PROGRAM names; else "cltrain" beside the library's file, in the folder above or in ../bin of it;
 * else the one at the place where cmake installed it. Where there is none, or one of another version, the
 * same probes and self-tests run in the process that called (a warning says so), which a bad driver may then
 * end or block. What was found is kept in the user's cache folder, so that this happens once. */
#ifndef CLTRAIN_H
#define CLTRAIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CLTRAIN_API __attribute__((visibility("default")))
#else
#define CLTRAIN_API
#endif

typedef struct cltrain cltrain;

CLTRAIN_API const char *cltrain_version(void);
/* Message of the last failure on this thread; "" when there was none. Valid until the next call. */
CLTRAIN_API const char *cltrain_error(void);
/* Warnings, one line each without its end: a capability that the driver does not give, what a run goes on
 * without. The library prints nothing itself; without a receiver they are dropped. For the whole process,
 * from any of its threads; NULL: nobody. */
typedef void (*cltrain_message)(void *context, const char *line);
CLTRAIN_API void cltrain_on_message(cltrain_message receiver, void *context);

CLTRAIN_API int cltrain_create(cltrain **out);
CLTRAIN_API void cltrain_destroy(cltrain *net); /* NULL is fine */

/* Adds one layer, a JSON object as in model.layers: {"op": ..., "name": ..., "inputs": [...], attributes}.
 * The first layer takes the data's "x"; a loss takes the layer before it and "y". The layer is checked when
 * the net is built. */
CLTRAIN_API int cltrain_layer(cltrain *net, const char *json);
/* Takes the whole configuration, data included, from a file; layers and data calls are then not needed. */
CLTRAIN_API int cltrain_config(cltrain *net, const char *path);
/* Sets one key, as on the command line: cltrain_set(net, "optimizer.learning_rate", "0.01"). Before the net
 * is built; the value is checked then. A key that is set again has the later value, also after a build that
 * failed. */
CLTRAIN_API int cltrain_set(cltrain *net, const char *key, const char *value);

/* Data in memory, borrowed until destroy: x (samples, x_shape...) f32 with labels (samples) in [0, classes),
 * or with targets (samples, y_shape...) f32. */
CLTRAIN_API int cltrain_data_classes(cltrain *net, int64_t samples, const float *x, int x_ndim,
                                     const int64_t *x_shape, const int32_t *labels);
CLTRAIN_API int cltrain_data_values(cltrain *net, int64_t samples, const float *x, int x_ndim,
                                    const int64_t *x_shape, const float *y, int y_ndim,
                                    const int64_t *y_shape);

/* Opens the device, plans, builds kernels, initialises parameters. train, load and predict do it themselves
 * when needed. */
CLTRAIN_API int cltrain_build(cltrain *net);

/* One finished step. loss: of the step's global batch; not finite when `skipped`. */
typedef struct cltrain_step_info {
    int64_t step, steps;
    double loss, learning_rate, gradient_norm, milliseconds;
    int skipped;
} cltrain_step_info;
typedef void (*cltrain_on_step)(void *context, const cltrain_step_info *info);
/* Runs all steps of the schedule (train.steps, or train.epochs). on_step may be NULL. A second call trains on
 * from the next step only if the first one failed or the schedule is longer; a finished schedule is an error.
 */
CLTRAIN_API int cltrain_train(cltrain *net, cltrain_on_step on_step, void *context);

/* Mean loss over the data, and the share of right classes (NaN where that has no meaning). Either may be
 * NULL. */
CLTRAIN_API int cltrain_evaluate(cltrain *net, double *loss, double *accuracy);
/* Outputs of the net (input of its first loss) for `samples` inputs: out holds out_count floats, samples
 * times outputs per sample. */
CLTRAIN_API int cltrain_predict(cltrain *net, int64_t samples, const float *x, float *out, int64_t out_count);

/* Parameters as a safetensors file, by the names of their layers ("linear1.weight"). */
CLTRAIN_API int cltrain_save(cltrain *net, const char *path);
CLTRAIN_API int cltrain_load(cltrain *net, const char *path);

#ifdef __cplusplus
}
#endif

#endif
