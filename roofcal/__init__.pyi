from roofcal.api import advise as advise
from roofcal.api import breakeven as breakeven
from roofcal.api import devices as devices
from roofcal.api import llm as llm
from roofcal.api import llm_compare as llm_compare
from roofcal.api import llm_curve as llm_curve
from roofcal.api import llm_sweep as llm_sweep
from roofcal.api import load as load
from roofcal.api import predict as predict
from roofcal.api import time_products as time_products

__version__: str
