/* SPDX-License-Identifier: Apache-2.0
 *
 * The config keys of data.type csv, and the rule that they must follow. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/part.h"

extern const clt_config_part clt_format_csv;

static const clt_config_key csv_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]", "the table to train on, plain or .gz"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "the table to evaluate on; []: a part of data.path, see data.split"),
    CLT_KEY_CHOICE("data.header", "auto|yes|no", "\"auto\"",
                   "whether the first line names the columns; auto: when no cell of it is a number"),
    CLT_KEY_STRING("data.target", "\"\"",
                   "the target's column by its name or its number from 1; empty: the last one"),
    CLT_KEY_STRINGS("data.columns", "[]",
                    "the input's columns, by names or numbers; []: all but the target and data.drop_columns"),
    CLT_KEY_STRINGS("data.drop_columns", "[]",
                    "columns that are no inputs, by names or numbers, such as the number of a row"),
    CLT_KEY_STRINGS("data.blank", "[]",
                    "words that mean a blank cell wherever they are the whole cell, such as NA, ? or -999; a "
                    "cell with nothing in it is blank in any case"),
    CLT_KEY_STRINGS("data.words", "[]",
                    "columns of the input whose cells are words although all or some are numbers, such as "
                    "postal codes; a column without any number holds words anyway. Each word of the training "
                    "part is a separate input, 1 or 0"),
    {.path = "data.fill",
     .type = CLT_CFG_STRING,
     .default_text = "\"mean\"",
     .older_text = "\"refuse\"",
     .min = -1e30,
     .max = 1e30,
     .unit = "",
     .help = "what a blank cell counts as in an input column of numbers: the mean or median of the column's "
             "numbers in the training part, or the number given here, in the unit of the table; in a column "
             "of words it is a separate word; refuse: a blank cell is an error in both. With --init RUN the "
             "run's own values are used"},
    {.path = "data.standardize",
     .type = CLT_CFG_BOOL,
     .default_text = "true",
     .older_text = "false",
     .unit = "",
     .help =
         "true: each input column of numbers becomes (number - mean) / deviation, with its mean and "
         "standard deviation (of the population) in the training part, and the target does so if the loss "
         "is mse or l1: the loss is then in that unit, predictions and their errors are in the table's. "
         "Without spread the deviation is 1. False, or with a data.scale other than 0, a data.mean other "
         "than 0 or a data.std other than 1: numbers become (number * scale - mean) / std, the target "
         "stays as it is"},
    CLT_KEY_STRINGS("data.class_names", "[]",
                    "the target column's words in the order of their classes; []: all words of the training "
                    "table, sorted; a column of numbers has no classes to name"),
    CLT_KEY_FLOAT_OPEN("data.split", 0, false, 1, true, "0.1", "",
                       "part of the samples kept for evaluation when data.eval_path is empty, drawn once and "
                       "for all; 0: none"),
    CLT_KEY_END,
};
static void csv_check_rules(clt_config_rules *rules)
{
    char *end;
    const char *fill =
        clt_rules_usable(rules, "data.fill") ? clt_config_string(rules->config, "data.fill") : "mean";
    double value = clt_strtod(fill, &end);
    bool number = end != fill && *end == '\0' && fabs(value) <= 1e30;
    if (strcmp(fill, "mean") != 0 && strcmp(fill, "median") != 0 && strcmp(fill, "refuse") != 0 && !number)
        clt_rules_broken(rules, "data.fill", "'%.60s' is not valid; valid: mean, median, refuse, or a number",
                         fill);
}

static const char *const csv_required[] = {"data.path", NULL};

const clt_config_part clt_format_csv = {
    .name = "csv",
    .help = "tables as text, a sample on each line: cells between commas, semicolons or tabs, the target in "
            "one column, numbers or words in the others",
    .keys = csv_keys,
    .required = csv_required,
    .check = csv_check_rules,
};
