/* SPDX-License-Identifier: Apache-2.0
 *
 * Correlations between predictions and targets equal scipy 1.17's (stats.pearsonr, stats.spearmanr), with
 * ties; and the reasons why there may be none. Needs no device.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/train/eval/eval_regression.h"

TEST(correlations_are_those_of_scipy)
{
    static const struct {
        double x[7], y[7];
        int64_t n;
        double pearson, spearman;
    } cases[] = {
        {{1, 2, 3, 4, 5}, {5, 6, 7, 8, 7}, 5, 0.8320502943378436, 0.8207826816681233},
        {{2.5, 0, 2.5, 5, 1, 2.5, 5}, {3, 0.5, 2, 4.5, 1.5, 2, 3}, 7, 0.8991791692867743, 0.9241868199346309},
        {{1, 2, 3}, {6, 4, 2}, 3, -1, -1},
        {{-1e3, 0.5, 2, 1e30}, {4, 3, 2, 1}, 4, -0.7745966692414834, -1},
        {{1e8 + 1, 1e8 + 2, 1e8 + 4}, {0.25, 0.75, 0.5}, 3, 0.3273268353539885, 0.5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x[7], y[7];
        clt_correlation got;
        memcpy(x, cases[i].x, sizeof x);
        memcpy(y, cases[i].y, sizeof y);
        assert_ok(clt_correlations(x, y, cases[i].n, &got));
        assert_null(got.none);
        if (!(fabs(got.pearson - cases[i].pearson) < 1e-14 && fabs(got.spearman - cases[i].spearman) < 1e-14))
            fail_msg("case %zu: %.17g and %.17g", i, got.pearson, got.spearman);
    }
}

TEST(without_a_correlation_there_is_a_reason)
{
    static const struct {
        double x[3], y[3];
        int64_t n;
        const char *why;
    } cases[] = {{{0.1, 0.1, 0.1}, {1, 2, 3}, 3, "all predictions are equal"},
                 {{1, 2, 3}, {0.3, 0.3, 0.3}, 3, "all targets are equal"},
                 {{1}, {2}, 1, "fewer than two samples"},
                 {{1, NAN, 3}, {1, 2, 3}, 3, "not finite"},
                 {{1, 2, 3}, {1, INFINITY, 3}, 3, "not finite"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x[3], y[3];
        clt_correlation got;
        memcpy(x, cases[i].x, sizeof x);
        memcpy(y, cases[i].y, sizeof y);
        assert_ok(clt_correlations(x, y, cases[i].n, &got));
        assert_non_null(got.none);
        assert_non_null(strstr(got.none, cases[i].why));
        assert_true(isnan(got.pearson) && isnan(got.spearman));
    }
}

TEST_PROGRAM();
