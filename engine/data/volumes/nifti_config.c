/* SPDX-License-Identifier: Apache-2.0
 *
 * The config keys of data.type nifti, and the rules that they must follow. */
#include "engine/config/choices.h"
#include "engine/data/volumes/volumes_state.h"

static void check_list(clt_config_rules *rules, const char *key)
{
    int n = clt_rules_usable(rules, key) ? clt_config_list_count(rules->config, key) : 0;
    if (n != 0 && n != 1 && n != 3)
        clt_rules_broken(rules, key, "depth, height and width, or one size for all of them, not %d sizes", n);
}

/* Checks that data.mask_values has one value for each class and no value twice. */
static void check_mask_values(clt_config_rules *rules)
{
    static const char key[] = "data.mask_values";
    int n = clt_rules_usable(rules, key) ? clt_config_list_count(rules->config, key) : 0;
    int64_t classes =
        clt_rules_usable(rules, "data.mask_classes") ? clt_config_int(rules->config, "data.mask_classes") : 0;
    if (n == 1 || n > CLT_MASK_CLASSES)
        clt_rules_broken(rules, key, "it takes the values of 2 to %d classes, not %d", CLT_MASK_CLASSES, n);
    if (n > 1 && classes > 0 && classes != n)
        clt_rules_broken(rules, key,
                         "it has %d values, but data.mask_classes is %lld; remove data.mask_classes", n,
                         (long long)classes);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (clt_config_list_int(rules->config, key, i) == clt_config_list_int(rules->config, key, k)) {
                clt_rules_broken(rules, key, "it has the value %lld twice, for class %d and class %d",
                                 (long long)clt_config_list_int(rules->config, key, i), k, i);
                return;
            }
}

static void nifti_rules(clt_config_rules *rules)
{
    check_mask_values(rules);
    check_list(rules, "data.patch");
    check_list(rules, "data.volume");
    check_list(rules, "data.spacing");
    if (clt_rules_usable(rules, "data.orientation") && !clt_rules_empty(rules, "data.orientation") &&
        !clt_axes_are(clt_config_string(rules->config, "data.orientation")))
        clt_rules_broken(
            rules, "data.orientation",
            "three letters such as RAS: R or L, A or P and S or I, each once, for the directions of the "
            "width, the height and the depth");
    if (clt_rules_usable(rules, "data.patch") && clt_rules_usable(rules, "data.volume") &&
        !clt_rules_empty(rules, "data.patch") && !clt_rules_empty(rules, "data.volume"))
        clt_rules_broken(rules, "data.volume",
                         "give either data.patch, which cuts patches out of volumes of any size, or "
                         "data.volume, to which whole volumes are brought");
    if (clt_rules_usable(rules, "data.window_low") && clt_rules_usable(rules, "data.window_high") &&
        clt_config_float(rules->config, "data.window_low") >
            clt_config_float(rules->config, "data.window_high"))
        clt_rules_broken(rules, "data.window_high", "must not be below data.window_low");
}

static const clt_config_key nifti_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]",
                    "the training folder: images/NAME.nii.gz with masks/NAME.nii.gz, or CLASS/NAME.nii.gz"),
    CLT_KEY_STRINGS("data.eval_path", "[]", "the evaluation folder; []: a part of data.path, see data.split"),
    CLT_KEY_FLOAT_OPEN(
        "data.split", 0, false, 1, true, "0.1", "",
        "part of the volumes kept for evaluation when data.eval_path is empty, drawn once and for "
        "all; 0: none"),
    CLT_KEY_STRINGS(
        "data.class_names", "[]",
        "class folders in the order of their classes, []: all folders of data.path, sorted; with masks: "
        "names of the classes, the background first, []: the labels of dataset.json in the folder, if it has "
        "one"),
    CLT_KEY_INT("data.mask_classes", 0, CLT_MASK_CLASSES, "0", "classes",
                "classes of masks, with the background, class 0; 0: found by reading all masks at the start"),
    CLT_KEY_INTS(
        "data.mask_values", 0, 65535, "[]",
        "how masks store their classes: the value of class 0, of class 1 and so on, such as [0,255]; []: as "
        "the numbers of the classes"),
    CLT_KEY_INTS(
        "data.volume", 1, 4096, "[]",
        "depth, height and width to which whole volumes are brought, or one number for all; []: they "
        "are of one size"),
    CLT_KEY_CHOICE("data.volume_fit", "crop|resize", "\"crop\"",
                   "how: crop: cut around the centre and padded where smaller; resize: resampled, trilinear"),
    CLT_KEY_FLOATS(
        "data.spacing", 0, true, 1e6, "[]",
        "millimetres between voxels to which volumes are resampled (trilinear; masks: the nearest voxel), "
        "before data.volume and data.patch: depth, height and width (z, y, x of NIfTI), or one number "
        "for all; []: as they are"),
    CLT_KEY_STRING(
        "data.orientation", "\"\"",
        "directions in which width, height and depth (x, y, z of NIfTI) are to go, such as RAS: to the "
        "right, the front and the head; volumes are turned and mirrored; \"\": they stay as they are, with "
        "a warning if they differ"),
    CLT_KEY_INTS(
        "data.patch", 1, 4096, "[]",
        "depth, height and width of random training patches of volumes with masks, and of the windows "
        "of evaluation; []: whole volumes"),
    CLT_KEY_FLOAT("data.patch_foreground", 0, 1, "0.5", "",
                  "probability that a patch is centred on a voxel that is not background"),
    CLT_KEY_INT("data.patches_per_volume", 1, 1e6, "1", "patches",
                "patches of a volume in an epoch, read one after another"),
    CLT_KEY_FLOAT("data.window_low", -1e30, 1e30, "0", "",
                  "intensities are clipped to data.window_low to data.window_high (Hounsfield units of CT); "
                  "equal ones: they are not"),
    CLT_KEY_FLOAT("data.window_high", -1e30, 1e30, "0", "", "see data.window_low"),
    CLT_KEY_BOOL(
        "data.window_unit", "true",
        "the window becomes 0 to 1, before data.scale, mean and std; false: values are only clipped"),
    CLT_KEY_INTS("data.flip_axes", 0, 2, "[]",
                 "axes along which training mirrors half of the samples: 0 depth, 1 height, 2 width"),
    CLT_KEY_FLOAT("data.scale_intensity", 0, 10, "0", "",
                  "training: a sample is multiplied by a random number from 1 - x to 1 + x"),
    CLT_KEY_FLOAT("data.shift_intensity", 0, 1e30, "0", "",
                  "training: a random number from -x to x is added to a sample"),
    CLT_KEY_FLOAT_OPEN("data.window_overlap", 0, false, 1, true, "0.25", "",
                       "part by which neighbouring windows of evaluation and prediction overlap"),
    CLT_KEY_CHOICE(
        "data.window_weights", "constant|gaussian", "\"constant\"",
        "weights of a window's voxels where windows overlap: all the same, or less towards its edges"),
    CLT_KEY_FLOAT(
        "data.cache_mb", 0, 1e9, "1024", "MiB",
        "unpacked volumes and masks kept in memory, in addition to the ones in use; volumes in .nii and .npy "
        "files are mapped and need none of it"),
    CLT_KEY_CHOICE("data.on_bad_sample", "stop|skip", "\"stop\"",
                   "a volume that cannot be read: stop: the run ends with its name; skip: training takes the "
                   "next one instead, with a warning"),
    CLT_KEY_END,
};
static const char *const nifti_required[] = {"data.path", NULL};

const clt_config_part clt_format_nifti = {
    .name = "nifti",
    .help = "a folder of volumes (NIfTI, or .npy), with masks for segmentation or a folder for each class",
    .keys = nifti_keys,
    .required = nifti_required,
    .check = nifti_rules,
};
