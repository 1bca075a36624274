"""What a run has found: canonical JSON, and its views.

run -> canonical (schema.json, validated) -> report.json -> html, junit, markdown, badge
"""
