"""Publications: frozen runs, their manifests, and the check that numbers follow from records."""
