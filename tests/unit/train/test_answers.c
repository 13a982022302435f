/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers to questions compared with those of people: exact matches and F1 equal those that
 * tests/golden/make_golden_answers.py computes by SQuAD's rules. Needs no device.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/json/json.h"
#include "engine/train/eval/answers.h"

TEST(answers_are_compared_as_squad_does)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    int cases = 0;
    assert_ok(clt_json_parse_file(CLT_TEST_SOURCE_DIR "/tests/golden/tasks/answers.json", CLT_EDATA, &doc));
    for (const clt_json *one = clt_json_first(clt_json_root(doc)); one; one = clt_json_next(one), cases++) {
        const char *text = clt_json_string(clt_json_get(one, "prediction"));
        clt_annotated record = {0};
        double exact, f1;
        for (const clt_json *a = clt_json_first(clt_json_get(one, "answers")); a; a = clt_json_next(a))
            clt_str_append_n(&record.answers, clt_json_string(a), strlen(clt_json_string(a)) + 1);
        assert_ok(clt_answer_compare(text, strlen(text), &record, &exact, &f1));
        double want = clt_json_number(clt_json_get(one, "exact")),
               f1_want = clt_json_number(clt_json_get(one, "f1"));
        if (fabs(exact - want) > 0 || fabs(f1 - f1_want) > 1e-12)
            fail_msg("'%s': exact %g and not %g, F1 %.17g and not %.17g", text, exact, want, f1, f1_want);
        clt_annotated_free(&record);
    }
    assert_true(cases > 30);
}

TEST_PROGRAM();
