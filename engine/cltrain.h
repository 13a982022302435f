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
 * device, ...); cltrain_error() then says what happened. An object may be used by one thread at a time.
 *
 * Drivers can crash. Therefore child processes list the drivers, and before a device is used for the first
 * time (with each version of its driver and of this library) they test what it can do. The children run the
 * program cltrain of the same version, never the program that uses the library. The environment variable
 * CLTRAIN_PROGRAM names it. Without that variable, a file "cltrain" is looked for beside the library's file,
 * then one folder above it, then in ../bin, then where cmake installs it. If there is none, or only one of
 * another version, the same tests run in the calling process, after a warning; a bad driver can then crash
 * or block it. Results are kept in the user's cache folder, so this is done once.
 *
 * Data and weight files are mapped into memory. Opening one installs a handler of SIGBUS, so that a file
 * that is truncated meanwhile causes an error and does not kill the process. Signals of other causes are
 * passed on to the handler that was installed before. */
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
/* Message of the last failure on this thread; "" if there was none. Valid until the next call of this
 * library. */
CLTRAIN_API const char *cltrain_error(void);
/* Receives warnings, one line each without a newline: a capability that the driver lacks, a feature that a
 * run does without. The library itself prints nothing; without a receiver warnings are dropped. There is one
 * receiver for the whole process, called from any of its threads; NULL removes it. */
typedef void (*cltrain_message)(void *context, const char *line);
CLTRAIN_API void cltrain_on_message(cltrain_message receiver, void *context);

CLTRAIN_API int cltrain_create(cltrain **out);
CLTRAIN_API void cltrain_destroy(cltrain *net); /* NULL is fine */

/* Adds one layer, a JSON object as in model.layers: {"op": ..., "name": ..., "inputs": [...], attributes}.
 * The first layer takes the data's "x"; a loss takes the layer before it and "y". The layer is checked when
 * the net is built. */
CLTRAIN_API int cltrain_layer(cltrain *net, const char *json);
/* Reads the whole configuration, data included, from a file. Calls that add layers and data are
 * not needed then. */
CLTRAIN_API int cltrain_config(cltrain *net, const char *path);
/* Sets one key, as on the command line: cltrain_set(net, "optimizer.learning_rate", "0.01"). Call it before
 * the net is built, which checks the value. A key's last value counts, also after a failed build. */
CLTRAIN_API int cltrain_set(cltrain *net, const char *key, const char *value);

/* Data in memory, borrowed until the net is destroyed: x (samples, x_shape...) f32 with labels (samples) in
 * [0, classes), or with targets (samples, y_shape...) f32. */
CLTRAIN_API int cltrain_data_classes(cltrain *net, int64_t samples, const float *x, int x_ndim,
                                     const int64_t *x_shape, const int32_t *labels);
CLTRAIN_API int cltrain_data_values(cltrain *net, int64_t samples, const float *x, int x_ndim,
                                    const int64_t *x_shape, const float *y, int y_ndim,
                                    const int64_t *y_shape);

/* Opens the device, plans, builds kernels and initialises parameters. Called by train, load and predict if
 * necessary. */
CLTRAIN_API int cltrain_build(cltrain *net);

/* One finished step. loss: mean over the step's global batch; not finite if the step was skipped. */
typedef struct cltrain_step_info {
    int64_t step, steps;
    double loss, learning_rate, gradient_norm, milliseconds;
    int skipped;
} cltrain_step_info;
typedef void (*cltrain_on_step)(void *context, const cltrain_step_info *info);
/* Runs all steps of the schedule (train.steps, or train.epochs). on_step may be NULL. A second call
 * continues with the next step if the first one failed or the schedule has been made longer; if the
 * schedule is finished, it is an error. */
CLTRAIN_API int cltrain_train(cltrain *net, cltrain_on_step on_step, void *context);

/* Mean loss over the data, and the fraction of correct classes (NaN if the model is not a classifier).
 * Either may be NULL. */
CLTRAIN_API int cltrain_evaluate(cltrain *net, double *loss, double *accuracy);
/* Errors of a regression over the data, in the unit of its targets: mean absolute error, root of the mean
 * squared error, and R2, the share of the targets' variance that is explained. Each is NaN unless the
 * net's first loss is a regression loss (mse, l1). Any pointer may be NULL. */
CLTRAIN_API int cltrain_evaluate_values(cltrain *net, double *mae, double *rmse, double *r2);
/* Computes the outputs of the net (the input of its first loss) for `samples` inputs. out holds out_count
 * floats: samples times outputs per sample. If the config's data is a table (data.type csv), inputs are in
 * the units of its columns (a column of words has one input, 1 or 0, for each word), and so are the
 * outputs of a regression. */
CLTRAIN_API int cltrain_predict(cltrain *net, int64_t samples, const float *x, float *out, int64_t out_count);

/* Writes the parameters to a safetensors file, named after their layers ("linear1.weight"). */
CLTRAIN_API int cltrain_save(cltrain *net, const char *path);
/* Reads the parameters of a safetensors file. If the config's data is a table and the file lies in a
 * checkpoint, the data.json there has the columns, means and deviations that the weights were trained
 * with. The net's own table must have the same, else the error is 7 (weights that do not fit). A file
 * elsewhere is not checked; the net's own means and deviations are used. */
CLTRAIN_API int cltrain_load(cltrain *net, const char *path);

#ifdef __cplusplus
}
#endif

#endif
