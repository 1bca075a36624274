"""`LocalCluster`: functions called in live workers."""
