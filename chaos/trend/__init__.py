"""Trends: what recoveries cost from build to build, and whether the newest one made them worse."""

from chaos.trend.series import Asked, Point, State, Trend, Trends, trends

__all__ = ["Asked", "Point", "State", "Trend", "Trends", "trends"]
