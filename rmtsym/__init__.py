"""Random matrix theory of machine learning: expression to equations, digits and simulation."""
