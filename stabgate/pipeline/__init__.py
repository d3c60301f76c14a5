"""Gates without pytest: what is asked for (`config`), model, data and explainer (`inputs`), the run (`running`)."""
