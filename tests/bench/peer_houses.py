# SPDX-License-Identifier: Apache-2.0
"""R2 of scikit-learn's MLPRegressor on train.csv and test.csv, over SEEDS seeds, and of predictions in a file of `cltrain predict`.

usage: peer_houses.py [SEEDS] [PREDICTIONS ...]
"""
import csv
import sys
import warnings

import numpy as np
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

warnings.simplefilter("ignore")


def load(path):
    with open(path) as file:
        rows = list(csv.reader(file))[1:]
    x = [[float(cell) if cell else np.nan for cell in row[:7]] + [row[7] or "missing"] for row in rows]
    return np.array(x, dtype=object), np.array([float(row[8]) for row in rows])


def tell(name, target, prediction):
    print(f"{name}: R2 {r2_score(target, prediction):.4f}, RMSE {mean_squared_error(target, prediction) ** 0.5:.0f}, "
          f"MAE {mean_absolute_error(target, prediction):.0f}")


x, y = load("train.csv")
xt, yt = load("test.csv")
for path in sys.argv[2:]:
    with open(path) as file:
        tell(path, yt, np.array([float(line.split(",")[1]) for line in file.read().splitlines()[1:]]))
found = []
for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
    columns = ColumnTransformer([("numbers", make_pipeline(SimpleImputer(), StandardScaler()), list(range(7))),
                                 ("words", OneHotEncoder(handle_unknown="ignore"), [7])])
    unit = StandardScaler()
    model = make_pipeline(columns, MLPRegressor(hidden_layer_sizes=(64, 64), random_state=seed))
    model.fit(x, unit.fit_transform(y[:, None])[:, 0])
    prediction = unit.inverse_transform(model.predict(xt)[:, None])[:, 0]
    found.append(r2_score(yt, prediction))
    tell(f"MLPRegressor, seed {seed}", yt, prediction)
print(f"scikit-learn {sklearn.__version__}: R2 {np.mean(found):.4f} on average, {min(found):.4f} to {max(found):.4f}")
